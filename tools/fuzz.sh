#!/usr/bin/env bash
# Feeds hostile input to the readers.
#
#   tools/fuzz.sh [SECONDS [TARGET...]]      for SECONDS (default 60) a target
#   tools/fuzz.sh --repeatable [TARGET...]   the same inputs whenever it is called
#
# Builds the targets with clang, ASan and UBSan and runs as many at once as there
# are processors. Targets: plan, safetensors, tokens, config, model (default: all).
#
# By seconds every call tries others: libFuzzer's seed is random, and what it
# learns stays in build/fuzz/corpus. Repeatable calls start from the seeds of the
# tree with a fixed seed, keep nothing and end after a fixed number of inputs, or
# after two minutes a target on a slow machine: on one tree one result.
#
# An input that fails is kept in build/fuzz/crashes: once the fault is mended it
# belongs to test/fuzz/corpus, which ctest replays.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

repeatable=
if [[ ${1:-} == --repeatable ]]; then
  repeatable=yes seconds=120
  shift
else
  seconds=${1:-60}
  shift $(($# > 0))
fi
targets=("$@")
((${#targets[@]})) || targets=(plan safetensors tokens config model)
[[ $seconds =~ ^[1-9][0-9]*$ ]] || {
  echo "fuzz.sh: error: expected seconds or --repeatable, found '$seconds'" >&2
  exit 1
}

# About a minute each on one quiet core.
declare -A inputs=(
  [plan]=8000 [safetensors]=500000 [tokens]=500000 [config]=3000000 [model]=200000
)
for name in "${targets[@]}"; do
  [[ -n ${inputs[$name]:-} ]] || {
    echo "fuzz.sh: error: expected a target of plan, safetensors, tokens, config, model, found '$name'" >&2
    exit 1
  }
done

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
export UBSAN_OPTIONS=print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}

# libFuzzer learns from compared numbers, and addresses are among them.
fixed_addresses=()
setarch "$(uname -m)" -R true 2>/dev/null &&
  fixed_addresses=(setarch "$(uname -m)" -R)

# The files that a target starts from, with commas between, in one order on every
# machine. A build with the compiler has seeds of whole models.
seeds_of() {
  local place
  for place in test/fuzz/corpus build/{fuzz,release}/test/fuzz/seeds; do
    if [[ -d $place/$1 ]]; then find "$place/$1" -type f; fi
  done | awk -F/ '!seen[$NF]++' | LC_ALL=C sort | paste -sd, | tr -d '\n'
}

# Runs one target; its log is printed where it fails.
fuzz() {
  local name=$1 log=$folder/$1.log longest=65536 command=() runs cover took
  seeds_of "$name" >"$folder/$name.seeds"
  if [[ $repeatable ]]; then
    command=("${fixed_addresses[@]}" "$folder/test/fuzz/fuzz-$name" -seed=1
      -runs="${inputs[$name]}")
  else
    mkdir -p "$folder/corpus/$name"
    command=("$folder/test/fuzz/fuzz-$name" "$folder/corpus/$name")
  fi
  [[ -s $folder/$name.seeds ]] &&
    command+=("-seed_inputs=@$folder/$name.seeds")
  [[ $name == plan ]] && longest=196608 # Some seeds have GPU code in them.
  if "${command[@]}" \
    -max_total_time="$seconds" -timeout=100 -rss_limit_mb=3000 \
    -max_len="$longest" -print_final_stats=1 \
    -artifact_prefix="$folder/crashes/$name-" >"$log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    cover=$(sed -n 's/^#[0-9]*\sDONE *cov: \([0-9]*\).*/\1/p' "$log")
    took=$(sed -n 's/^Done [0-9]* runs in \([0-9]*\) second.*/\1/p' "$log")
    echo "fuzz-$name: $runs inputs in $took s, $cover edges, nothing found"
  else
    tail -n 60 "$log"
    echo "fuzz-$name: found something; log: $log"
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
