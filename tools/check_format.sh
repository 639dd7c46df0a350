#!/usr/bin/env bash
# Fails where clang-format would change a tracked source file; with --fix it
# changes them. The version is fixed, as others format differently.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case "$*" in
'') mode=(--dry-run -Werror) ;;
--fix) mode=(-i) ;;
*)
  echo "check_format.sh: error: expected --fix or nothing, found '$*'" >&2
  exit 2
  ;;
esac
git ls-files -z -- '*.cpp' '*.h' '*.cu' '*.cuh' |
  xargs -0 -n 16 -P "$(nproc)" clang-format-22 "${mode[@]}"
