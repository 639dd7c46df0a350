#!/usr/bin/env bash
# From a config.json to a trained model: trains a small Qwen3.5 hybrid from
# scratch on the King James Bible, a few minutes on two cores. Installs and
# builds what is missing. Everything it makes is in demo-out/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Threads that wait do not spin, so that other programs hardly slow this down.
export OMP_WAIT_POLICY=passive

out=demo-out
python=.venv/bin/python
bin=build/release/tools

title() { printf '\n== %s ==\n' "$*"; }
run() {
  printf '$ %s\n' "$*" >&2
  "$@"
}

title "Set-up and build"
tools/setup.sh
cmake --preset release --log-level=WARNING
cmake --build --preset release --target qwen-import qwenc qwenrun

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
run cp tools/demo/run.toml $out/run.toml
run $bin/qwen-import/qwen-import models/configs/tiny.json --tokens 2048 \
  --max-documents 64 -o $out/model.mlir
run $bin/qwenc/qwenc $out/model.mlir -o $out/plan.fb

title "Train, with the options of $out/run.toml"
run $bin/qwenrun/qwenrun $out/plan.fb

title "Check: the checkpoint is loaded again"
checkpoint=$(ls -d $out/run/checkpoint-*)
run $bin/qwenrun/qwenrun $out/plan.fb --weights "$checkpoint" --eval-only \
  >$out/reloaded.json
run $python tools/demo/check_learning.py $out
printf '\nThe trained model is in %s\n' "$checkpoint"
