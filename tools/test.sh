#!/usr/bin/env bash
# Installs what is missing, builds everything and runs every test. Arguments go
# to ctest: tools/test.sh -R format. Tests run side by side, so the preset lets
# OpenMP threads that wait sleep instead of spin.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/setup.sh
cmake --preset release --log-level=WARNING
cmake --build --preset release
ctest --preset release -j "$(nproc)" "$@"
