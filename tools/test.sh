#!/usr/bin/env bash
# Installs what is missing, builds everything, runs every test and fuzzes each
# reader for a minute. Arguments go to ctest, and nothing is fuzzed then:
# tools/test.sh -R format. Tests run side by side, so the preset lets OpenMP
# threads that wait sleep instead of spin.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/setup.sh
cmake --preset release --log-level=WARNING
cmake --build --preset release
ctest --preset release -j "$(nproc)" "$@"
if (($# == 0)); then
  # The same inputs each time. 77: no libFuzzer, the reason is printed.
  tools/fuzz.sh --repeatable || (($? == 77))
fi
