#!/usr/bin/env bash
# From a config.json to a trained model: trains a small Qwen3.5 hybrid from
# scratch on the King James Bible, a few minutes on two cores. Where there is a
# Hopper GPU, and nvcc to build for it, it trains there. Installs and builds
# what is missing. Everything it makes is in demo-out/.
#
#   tools/demo.sh          on the GPU where there is one, else on the CPU
#   tools/demo.sh cpu      on the CPU
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Threads that wait do not spin, so that other programs hardly slow this down.
export OMP_WAIT_POLICY=passive

out=demo-out
python=.venv/bin/python
bin=build/release/tools

case "$*" in
'' | cpu) ;;
*)
  printf "demo.sh: error: expected 'cpu' or nothing, found '%s'\n" "$*" >&2
  exit 2
  ;;
esac

# True where the build has the CUDA target and the first GPU is one it is for.
has_gpu() {
  grep -q '^CMAKE_CUDA_COMPILER:.*=.*nvcc' build/release/CMakeCache.txt &&
    [ "$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader --id=0 \
      2>/dev/null)" = 9.0 ]
}

title() { printf '\n== %s ==\n' "$*"; }
run() {
  printf '$ %s\n' "$*" >&2
  "$@"
}

title "Set-up and build"
tools/setup.sh
cmake --preset release --log-level=WARNING
cmake --build --preset release --target qwen-import qwenc qwenrun

# The CUDA kernels have other head sizes than the CPU's model, and bf16.
model=tiny
flags=()
if [ "${1-}" != cpu ] && has_gpu; then
  model=tiny-hopper
  flags=(--target=sm_90a)
fi

title "Data: one document a chapter, every 20th chapter held out"
rm -rf "$out"
mkdir "$out"
run $python tools/demo/bible_chapters.py $out
run $python tools/qwen-prepare/train_tokenizer.py --vocab-size 2048 \
  -o $out/tokenizer $out/train.txt
for set in train eval; do
  run $python tools/qwen-prepare/qwen-prepare $out/$set.jsonl \
    --tokenizer $out/tokenizer --max-tokens 1024 --overlong split \
    -o $out/$set.safetensors
done

title "Compile"
sed "s|configs/tiny.json|configs/$model.json|" tools/demo/run.toml \
  >$out/run.toml
run $bin/qwen-import/qwen-import models/configs/$model.json --tokens 2048 \
  --max-documents 64 -o $out/model.mlir
run $bin/qwenc/qwenc "${flags[@]}" $out/model.mlir -o $out/plan.fb

title "Train, with the options of $out/run.toml"
run $bin/qwenrun/qwenrun $out/plan.fb

title "Check: the checkpoint is loaded again"
checkpoint=$(ls -d $out/run/checkpoint-*)
run $bin/qwenrun/qwenrun $out/plan.fb --weights "$checkpoint" --eval-only \
  >$out/reloaded.json
run $python tools/demo/check_learning.py $out
printf '\nThe trained model is in %s\n' "$checkpoint"
