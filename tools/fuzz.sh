#!/usr/bin/env bash
# Feeds hostile input to the readers: tools/fuzz.sh [SECONDS [TARGET...]]
#
# Builds the targets with clang, ASan and UBSan and runs each for SECONDS
# (default 60), as many at once as there are processors. Targets: plan,
# safetensors, tokens, config, model (default: all; the last one needs a build of
# the dialects). What libFuzzer learns stays in build/fuzz/corpus. An input that
# fails is kept in build/fuzz/crashes: once the fault is mended it belongs to
# test/fuzz/corpus, which ctest replays.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-60}
targets=("${@:2}")
((${#targets[@]})) || targets=(plan safetensors tokens config model)
[[ $seconds =~ ^[1-9][0-9]*$ ]] || {
  echo "fuzz.sh: error: expected seconds, found '$seconds'" >&2
  exit 1
}

# Exits with 77, which means skipped, where libFuzzer is missing.
probe='extern "C" int LLVMFuzzerTestOneInput(const unsigned char *, unsigned long) { return 0; }'
if ! clang++-22 -x c++ -fsanitize=fuzzer,address -o /dev/null - <<<"$probe" \
  2>/dev/null; then
  echo "fuzz.sh: skipped: clang++-22 with libFuzzer is missing (packages clang-22, libclang-rt-22-dev)"
  exit 77
fi

cmake --preset fuzz --log-level=WARNING
cmake --build --preset fuzz --target plan-seeds "${targets[@]/#/fuzz-}"

folder=build/fuzz
mkdir -p $folder/crashes

# Runs one target; its log is printed where it fails.
fuzz() {
  local name=$1 seeds=() place
  mkdir -p "$folder/corpus/$name"
  # A build with the compiler has seeds of whole models.
  for place in test/fuzz/corpus build/{fuzz,release}/test/fuzz/seeds; do
    [[ -d $place/$name ]] && seeds+=("$place/$name")
  done
  if "$folder/test/fuzz/fuzz-$name" -max_total_time="$seconds" -timeout=20 \
    -rss_limit_mb=3000 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$folder/crashes/$name-" \
    "$folder/corpus/$name" "${seeds[@]}" >"$folder/$name.log" 2>&1; then
    local runs cover
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$folder/$name.log")
    cover=$(sed -n 's/^#[0-9]*\sDONE *cov: \([0-9]*\).*/\1/p' "$folder/$name.log")
    echo "fuzz-$name: $runs inputs in $seconds s, $cover edges, nothing found"
  else
    tail -n 60 "$folder/$name.log"
    echo "fuzz-$name: found something; log: $folder/$name.log"
    return 1
  fi
}

failed=0 running=0
for name in "${targets[@]}"; do
  if ((running == $(nproc))); then
    wait -n || failed=1
    running=$((running - 1))
  fi
  fuzz "$name" &
  running=$((running + 1))
done
while ((running > 0)); do
  wait -n || failed=1
  running=$((running - 1))
done
exit $failed
