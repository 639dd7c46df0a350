#!/bin/bash
# Runs what bundle.sh collected, on the GPU machine.
#
#   run.sh [compare options]   ours and PyTorch in turn; see results/
#   run.sh ranks [compare_ranks options]   the same on several GPUs
#   run.sh tests               the CUDA kernels against the CPU's
#   run.sh sanitize            the same, small, under compute-sanitizer
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PYTHONDONTWRITEBYTECODE=1

# Racecheck looks at the project's kernels, not at the library's products, and
# takes tests of a build that it can follow where the bundle has them.
sanitize() {
  local failed=0 test name follow
  local library=(--kernel-name-exclude kns=nvjet --kernel-name-exclude
    kns=cutlass --kernel-name-exclude kns=cublas --kernel-name-exclude kns=xmma)
  for test in "$here"/tests/*CudaTest; do
    name=$(basename "$test")
    echo "== memcheck $name"
    compute-sanitizer --tool memcheck --error-exitcode 9 "$test" small ||
      failed=1
    follow=$here/tests-racecheck/$name
    [ -x "$follow" ] || follow=$test
    echo "== racecheck $name"
    compute-sanitizer --tool racecheck "${library[@]}" --error-exitcode 9 \
      "$follow" small || failed=1
  done
  return $failed
}

run_tests() {
  local failed=0 test
  for test in "$here"/tests/*CudaTest; do
    echo "== $(basename "$test")"
    "$test" || failed=1
  done
  return $failed
}

# What both comparisons are told: where everything is, and the peers' packages.
comparison() {
  local program=$1
  shift
  local peers=() cache=/tmp/qwen-bench-cache wheel
  if [ -d "$here/wheels" ]; then
    for wheel in "$here"/wheels/*.whl; do
      python3 -m zipfile -e "$wheel" "$here/site"
    done
    peers=(--peer-path "$here/site")
  fi
  # Triton's cache holds absolute paths: it works where it was made.
  [ ! -d "$here/cache" ] || [ -e "$cache" ] || cp -r "$here/cache" "$cache"
  exec "$here/bench/$program" --bin "$here/bin" --plan-dir "$here/plans" \
    --cache "$cache" -o "$here/results" "${peers[@]}" "$@"
}

# NCCL may come with PyTorch alone.
find_nccl() {
  local found
  ldconfig -p | grep -q 'libnccl\.so\.2' && return
  found=$(python3 -c 'import nvidia.nccl; print(nvidia.nccl.__path__[0])' \
    2> /dev/null) || return 0
  export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$found/lib
}

case ${1:-} in
tests) run_tests ;;
sanitize) sanitize ;;
ranks)
  shift
  find_nccl
  [ ! -x "$here/mpi/mpirun" ] ||
    export QWEN_MPIRUN="$here/mpi/mpirun --bind-to none"
  comparison compare_ranks "$@"
  ;;
*) comparison compare "$@" ;;
esac
