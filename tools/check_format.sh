#!/usr/bin/env bash
# Fails where clang-format would change a tracked source file; with --fix it
# changes them. The version is fixed, as others format differently.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=(--dry-run -Werror)
[[ ${1:-} == --fix ]] && mode=(-i)
git ls-files -z -- '*.cpp' '*.h' '*.cu' '*.cuh' |
  xargs -0 -n 16 -P "$(nproc)" clang-format-22 "${mode[@]}"
