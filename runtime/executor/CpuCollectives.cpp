//===- CpuCollectives.cpp - Collectives of a plan on processors -----------===//

#include "runtime/executor/CpuCollectives.h"
#include "qwen/Support/BFloat16.h"

using namespace qwen;

template <typename Args>
static Status checkSizes(const Args &args, const Communicator &ranks) {
  int64_t expected = ranks.size() * args.shard.elements();
  if (args.full.elements() != expected)
    return dataLoss("{}: 'full' has {} elements, expected {} on {} ranks",
                    Args::kernelName, args.full.elements(), expected,
                    ranks.size());
  return okStatus();
}

Status qwen::cpu::checkCollective(const AllGatherArgs &args,
                                  const Communicator &ranks) {
  return checkSizes(args, ranks);
}

Status qwen::cpu::checkCollective(const ReduceScatterArgs &args,
                                  const Communicator &ranks) {
  if (args.full.dtype != DType::F32)
    return makeError(StatusCode::FailedPrecondition,
                     "{}: gradients in {}; this runtime adds f32 over ranks",
                     ReduceScatterArgs::kernelName, dtypeName(args.full.dtype));
  return checkSizes(args, ranks);
}

Status qwen::cpu::runCollective(const AllGatherArgs &args,
                                Communicator &ranks) {
  return ranks.allGather(args.shard.data, args.full.data, args.shard.bytes());
}

/// Rounds float32 sums to a bf16 shard, or adds them to it and rounds.
static void store(const float *sums, BFloat16 *shard, int64_t elements,
                  bool accumulate) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < elements; ++i)
    shard[i] = toBFloat16(accumulate ? toFloat(shard[i]) + sums[i] : sums[i]);
}

Status qwen::cpu::runCollective(const ReduceScatterArgs &args,
                                Communicator &ranks) {
  float *full = args.full.as<float>();
  int64_t elements = args.shard.elements();
  if (args.shard.dtype == DType::F32)
    return ranks.reduceScatter(full, args.shard.as<float>(), elements,
                               args.accumulate);
  // The launch owns the whole, so the sum needs no memory of its own.
  float *sums = full + ranks.rank() * elements;
  QWEN_RETURN_IF_ERROR(
      ranks.reduceScatter(full, sums, elements, /*accumulate=*/false));
  store(sums, args.shard.as<BFloat16>(), elements, args.accumulate);
  return okStatus();
}
