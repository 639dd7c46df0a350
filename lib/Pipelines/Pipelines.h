//===- Pipelines.h - Which passes run in which order -----------*- C++ -*-===//
//
// The only place that orders passes. Tools and tests build stages from here.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_PIPELINES_PIPELINES_H
#define QWEN_LIB_PIPELINES_PIPELINES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir {
class DialectRegistry;
class OpPassManager;
} // namespace mlir

namespace qwen {

enum class Stage {
#define QWEN_STAGE(Enumerator, name, summary) Enumerator,
#include "lib/Pipelines/Stages.def"
};

/// All stages, first to last.
llvm::ArrayRef<Stage> allStages();
llvm::StringRef stageName(Stage stage);
llvm::StringRef stageSummary(Stage stage);
/// The stage of that name, if there is one.
std::optional<Stage> stageByName(llvm::StringRef name);

/// What a user can choose about a compilation.
struct CompileOptions {
  /// What the plan runs on (qwen/Plan/Target.h).
  std::string target = "x86-64-v3";
  /// Off: each elementwise or row-wise op is a kernel of its own.
  bool fuse = true;
  /// none, cheap or full.
  std::string recompute = "none";
  /// Element type of AdamW's moments: f32 or bf16.
  std::string momentType = "f32";
  /// Master copies of bf16 parameters: f32 or none.
  std::string masters = "f32";
  /// Parameters whose names match one of these do not decay; empty: as the
  /// model says.
  std::vector<std::string> noDecay;
  /// Tuning table of matrix products on a GPU; empty: the built-in one.
  std::string tuning;
  /// Ranks that parameters, gradients and optimizer state are spread over.
  int64_t worldSize = 1;
  /// Units that are gathered ahead of their use.
  int64_t prefetch = 1;
  /// Element type of the gradients that ranks hold: f32 or bf16.
  std::string gradType = "f32";
  /// Off: a program gathers each unit once and keeps it.
  bool reshardAfterForward = true;
  /// What ranks send of the embedding: rows, table, or auto for what is less.
  std::string embeddingExchange = "auto";
  /// Report groups and chain ends.
  bool fusionRemarks = false;
  /// Report gathers and scatters of each unit.
  bool shardingRemarks = false;
};

/// Adds the passes of one stage, its verifier last. Stage emit has none: it
/// writes the plan (lib/Emit).
void buildStage(mlir::OpPassManager &pm, Stage stage,
                const CompileOptions &options);

/// Registers every dialect and interface that the stages use.
void registerCompilerDialects(mlir::DialectRegistry &registry);

} // namespace qwen

#endif // QWEN_LIB_PIPELINES_PIPELINES_H
