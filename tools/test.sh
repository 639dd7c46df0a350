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
  # Four targets of 30 s, two at a time; 77: no libFuzzer, the reason is printed.
  tools/fuzz.sh 30 plan safetensors tokens config || (($? == 77))
fi
