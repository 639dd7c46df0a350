//===- Import.h - From a model's config to its training graph --*- C++ -*-===//
//
// Builds forward and loss of a model as an MLIR module.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_MODELS_IMPORT_H
#define QWEN_MODELS_IMPORT_H

#include "models/Config.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>

namespace qwen {

/// Limits of a micro-batch; larger ones would not fit 32-bit token numbers
/// times heads in kernels, nor any memory.
inline constexpr int64_t mostTokens = int64_t(1) << 24;
inline constexpr int64_t mostDocuments = int64_t(1) << 20;

struct ImportOptions {
  /// Tokens of a micro-batch.
  int64_t tokens = 0;
  /// Most documents of a micro-batch.
  int64_t maxDocuments = 0;
  /// "f32", "bf16" or "f64"; empty: the config's.
  std::string dtype;
  /// Prefix of parameter names; none: the config's form decides.
  std::optional<std::string> namePrefix;
  /// Whether to build @logits too.
  bool logits = false;
  /// What reports call the model.
  std::string modelName;
};

/// The module, verified; or what is wrong with the options.
StatusOr<mlir::OwningOpRef<mlir::ModuleOp>>
importModel(mlir::MLIRContext &context, const ModelConfig &config,
            const ImportOptions &options);

} // namespace qwen

#endif // QWEN_MODELS_IMPORT_H
