//===- NonFiniteSearch.cpp - Why steps were not finite --------------------===//
//
// Runs what the last step ran once more, until the engine finds something.
//
//===----------------------------------------------------------------------===//

#include "runtime/trainer/Trainer.h"

#include <algorithm>

using namespace qwen;

/// "rank 1, micro-batch 2 of 3 (pack 17 of epoch 0), launch …": the round's
/// packs are those of the ranks.
StatusOr<std::string> Trainer::describeFinding(const NonFiniteFinding &finding,
                                               size_t round) {
  Communicator &ranks = engine->ranks();
  int64_t pack = last.packs[round];
  QWEN_RETURN_IF_ERROR(ranks.broadcast(&pack, sizeof(pack), finding.rank));
  std::string rank =
      ranks.size() > 1 ? fmt::format("rank {}, ", finding.rank) : "";
  std::string content = pack == emptyPack ? "an empty one"
                                          : fmt::format("pack {} of epoch {}",
                                                        pack, last.begin.epoch);
  return fmt::format("{}micro-batch {} of {} ({}), {}", rank, round + 1,
                     last.packs.size(), content, finding.text);
}

StatusOr<std::string> Trainer::explainNonFinite() {
  QWEN_RETURN_IF_ERROR(cancel());
  QWEN_ASSIGN_OR_RETURN(EpochPacking packs,
                        EpochPacking::create(*data, engine->limits(),
                                             options.seed,
                                             uint32_t(last.begin.epoch)));
  *engine->inputs().lossScale.as<float>() = static_cast<float>(
      1.0 / double(std::max<int64_t>(last.result.supervised, 1)));
  for (size_t i = 0; i < last.packs.size(); ++i) {
    QWEN_RETURN_IF_ERROR(fillPack(packs, last.packs[i]));
    setInputs(batch, engine->inputs());
    QWEN_ASSIGN_OR_RETURN(NonFiniteFinding finding,
                          engine->findNonFinite(microStepAt(int64_t(i))));
    if (finding.rank >= 0)
      return describeFinding(finding, i);
  }
  // The squares of float32 are added in float64, where they do not overflow:
  // the norm of finite gradients is finite.
  return std::string("nothing found when the step was run again");
}
