#!/bin/bash
# Collects what a GPU machine without LLVM needs to measure, and to test the
# CUDA kernels, into one folder: programs, the libraries that they need, plans
# and scripts. On the GPU machine: FOLDER/run.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

usage() {
  cat >&2 <<'END'
usage: bundle.sh BUILD FOLDER [--wheels DIR] [--cache DIR] [--racecheck BUILD]
                 [--no-tests] [--set NAME] [PLAN...]

BUILD   build folder with qwen-bench, qwenrun and, without PLANs, qwenc
FOLDER  to be made
PLAN    CONFIG[:LAYERS] as make_plans takes it; default: the comparison's two
--set NAME    for several GPUs: the plans of compare_ranks --set NAME instead,
              and MPI
--wheels DIR  pure Python wheels for the peers (flash-linear-attention, fla-core)
--cache DIR   what the peers' kernels were compiled to before
--racecheck BUILD  build folder made with -DQWEN_RACECHECK=ON, whose tests
              racecheck runs
END
  exit 2
}

[ $# -ge 2 ] || usage
build=$1 folder=$2
shift 2
wheels='' cache='' racecheck='' tests=1 set='' plans=()
while [ $# -gt 0 ]; do
  case $1 in
  --wheels) wheels=${2:?--wheels needs a folder} && shift ;;
  --cache) cache=${2:?--cache needs a folder} && shift ;;
  --racecheck) racecheck=${2:?--racecheck needs a build folder} && shift ;;
  --no-tests) tests=0 ;;
  --set) set=${2:?--set needs a name} && shift ;;
  -*) usage ;;
  *) plans+=("$1") ;;
  esac
  shift
done
for given in "$build" "$wheels" "$cache" "$racecheck"; do
  [ -z "$given" ] || [ -d "$given" ] ||
    { echo "bundle.sh: error: no folder '$given'" >&2 && exit 1; }
done
case $set in
'' | two | eight) ;;
*) echo "bundle.sh: error: --set: expected two or eight, found '$set'" >&2 && exit 1 ;;
esac
[ ${#plans[@]} -gt 0 ] || [ -n "$set" ] || plans=(qwen3.8-27b:4 qwen3.8-27b:12)
[ ! -e "$folder" ] || { echo "bundle.sh: error: $folder exists" >&2 && exit 1; }

mkdir -p "$folder"/{bin,lib,bench}
install -s "$build"/tools/qwen-bench/qwen-bench "$build"/tools/qwenrun/qwenrun \
  "$folder/bin"
if [ $tests = 1 ]; then
  mkdir "$folder/tests"
  install -s "$build"/test/parity/cuda/*CudaTest "$folder/tests"
fi
if [ -n "$racecheck" ]; then
  mkdir "$folder/tests-racecheck"
  install -s "$racecheck"/test/parity/cuda/*CudaTest "$folder/tests-racecheck"
fi
# All but what every machine has.
ldd "$folder"/bin/* | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
  grep -Ev '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)\.so' |
  while read -r library; do cp -L "$library" "$folder/lib/"; done

if [ -n "$set" ]; then
  install -s "$build"/tools/qwenrun/libqwen_mpi.so "$folder/bin"
  "$here/bundle_mpi.sh" "$folder/mpi"
  "$here/compare_ranks" --bin "$build/tools" --plan-dir "$folder/plans" \
    --set "$set" --plans-only
fi
[ ${#plans[@]} -eq 0 ] ||
  "$here/make_plans" --bin "$build/tools" -o "$folder/plans" "${plans[@]}"
cp -r "$here"/{compare,compare_ranks,train_sizes,run.sh} "$folder/bench/"
cp -r "$here"/{compare_report,ranks_report,bench_session,plan_spec}.py \
  "$here"/seven_{ragged,halving}.inc "$here/peers" "$folder/bench/"
mkdir -p "$folder/models"
cp -r "$here/../../models/configs" "$folder/models/"
mv "$folder/bench/run.sh" "$folder/"
cp "$here/../command_line.py" "$folder/"
git -C "$here" rev-parse HEAD > "$folder/bench/VERSION"
[ -z "$wheels" ] || cp -r "$wheels" "$folder/wheels"
[ -z "$cache" ] || cp -r "$cache" "$folder/cache"
find "$folder" -name __pycache__ -prune -exec rm -r {} +
du -sh "$folder"
