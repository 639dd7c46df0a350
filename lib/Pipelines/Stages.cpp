//===- Stages.cpp - Names of the stages -----------------------------------===//

#include "lib/Pipelines/Pipelines.h"

#include "llvm/ADT/ArrayRef.h"

using namespace qwen;

namespace {
struct StageInfo {
  llvm::StringRef name, summary;
};

constexpr Stage stages[] = {
#define QWEN_STAGE(Enumerator, name, summary) Stage::Enumerator,
#include "lib/Pipelines/Stages.def"
};

const StageInfo infos[] = {
#define QWEN_STAGE(Enumerator, name, summary) {name, summary},
#include "lib/Pipelines/Stages.def"
};
} // namespace

llvm::ArrayRef<Stage> qwen::allStages() { return stages; }

llvm::StringRef qwen::stageName(Stage stage) {
  return infos[static_cast<int>(stage)].name;
}

llvm::StringRef qwen::stageSummary(Stage stage) {
  return infos[static_cast<int>(stage)].summary;
}

std::optional<Stage> qwen::stageByName(llvm::StringRef name) {
  for (Stage stage : stages)
    if (stageName(stage) == name)
      return stage;
  return std::nullopt;
}
