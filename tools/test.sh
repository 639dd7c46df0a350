#!/usr/bin/env bash
# Installs what is missing, builds everything and runs every test. Arguments go
# to ctest: tools/test.sh -R format
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/setup.sh
cmake --preset release --log-level=WARNING
cmake --build --preset release
ctest --preset release -j "$(nproc)" "$@"
