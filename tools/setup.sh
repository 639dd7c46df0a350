#!/usr/bin/env bash
# Installs what building, testing and the demo need on Debian 12: packages with
# apt (as root, or through sudo) and a Python virtual environment in .venv.
# Where all of it is there already, it ends at once and needs neither network
# nor root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# LLVM and MLIR 22 are in bookworm-security, which is enabled by default.
packages=(
  # Build.
  g++ cmake ninja-build ccache git
  # Compiler.
  llvm-22-dev libmlir-22-dev mlir-22-tools lld-22 zlib1g-dev libzstd-dev
  # Runtime.
  libflatbuffers-dev flatbuffers-compiler libfmt-dev nlohmann-json3-dev
  libprotobuf-dev protobuf-compiler libcli11-dev
  # Several ranks: the MPI module and mpirun. One rank needs neither.
  libopenmpi-dev openmpi-bin
  # Tests: FileCheck and lit, GoogleTest, the format check.
  llvm-22-tools libgtest-dev clang-format-22
  # Fuzzing: clang with libFuzzer.
  clang-22 libclang-rt-22-dev
  # Data tools.
  python3-venv
  # The demo's text.
  bible-kjv bible-kjv-text
)

fail() {
  echo "setup.sh: error: $*" >&2
  exit 1
}

install_packages() {
  command -v dpkg-query >/dev/null ||
    fail "expected Debian 12; found no dpkg-query. Packages: ${packages[*]}"
  local installed missing=() package as_root=()
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' \
    "${packages[@]}" 2>/dev/null) || true # It fails where one is unknown.
  for package in "${packages[@]}"; do
    grep -qxF "installed $package" <<<"$installed" || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      fail "neither root nor sudo; as root run: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  echo "Installing ${missing[*]}"
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# The stamp is written last, so an interrupted installation starts again.
make_venv() {
  local stamp=.venv/requirements.sha256 wanted
  wanted=$(sha256sum tools/requirements.txt)
  if [[ -f $stamp && $(<"$stamp") == "$wanted" ]] &&
    .venv/bin/python -c '' 2>/dev/null; then
    return 0
  fi
  echo "Making .venv from tools/requirements.txt"
  /usr/bin/python3 -m venv --clear .venv
  .venv/bin/python -m pip install -q --disable-pip-version-check \
    -r tools/requirements.txt
  echo "$wanted" >"$stamp"
}

(($# == 0)) || fail "expected no arguments, found '$*'"
install_packages
make_venv
