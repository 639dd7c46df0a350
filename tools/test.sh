#!/usr/bin/env bash
# Installs what is missing, builds everything, runs every test and fuzzes the
# readers for a minute. Arguments go to ctest, and nothing is fuzzed then:
# tools/test.sh -R format. Tests run side by side, so the preset lets OpenMP
# threads that wait sleep instead of spin.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/setup.sh
cmake --preset release --log-level=WARNING
cmake --build --preset release
ctest --preset release -j "$(nproc)" "$@"
if (($# == 0)); then
  # The same inputs each time, of four targets, half a minute each on a quiet
  # core. 77: no libFuzzer, the reason is printed.
  tools/fuzz.sh --repeatable plan safetensors tokens config || (($? == 77))
fi
