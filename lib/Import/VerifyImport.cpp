//===- VerifyImport.cpp - Check that a module is a model ------------------===//

#include "lib/Import/Passes.h"

#include "dialects/Qwen/Qwen.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallSet.h"

#include <map>

using namespace mlir;

namespace qwen {
#define GEN_PASS_DEF_VERIFYIMPORTPASS
#include "lib/Import/Passes.h.inc"

namespace {

/// One named argument or result that a program must have.
struct Slot {
  StringRef name;
  int64_t size; // of its first dimension
};

/// A value is a tensor of what kernels can hold; between elementwise ops it may
/// also be the result of a comparison.
LogicalResult checkValue(Operation *op, const Twine &name, Type type,
                         bool comparisonAllowed) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  Type element = tensor ? tensor.getElementType() : Type();
  if (tensor &&
      (isa<Float32Type, BFloat16Type, Float64Type>(element) ||
       element.isInteger(32) || (comparisonAllowed && element.isInteger(1))))
    return success();
  return op->emitOpError() << name
                           << " must be a tensor of f32, bf16, f64 or i32"
                           << (comparisonAllowed ? " or i1" : "") << ", but is "
                           << type;
}

/// The values that an op takes and makes, or that cross a function's border.
LogicalResult checkValues(Operation *op) {
  TypeRange operands = op->getOperandTypes(), results = op->getResultTypes();
  if (auto function = dyn_cast<func::FuncOp>(op)) {
    operands = function.getArgumentTypes();
    results = function.getResultTypes();
  }
  StringRef operand = isa<func::FuncOp>(op) ? "argument #" : "operand #";
  bool elementwise =
      OpTrait::hasElementwiseMappableTraits(op) || isa<arith::ConstantOp>(op);
  for (auto [i, type] : llvm::enumerate(operands))
    if (failed(checkValue(op, operand + Twine(i), type, elementwise)))
      return failure();
  for (auto [i, type] : llvm::enumerate(results))
    if (failed(checkValue(op, "result #" + Twine(i), type, elementwise)))
      return failure();
  return success();
}

/// An attribute that no part of the compiler looks at asks for something that
/// the model would not do: a window, a cap, a frozen parameter. Attributes of
/// another dialect are notes of whoever wrote them.
LogicalResult checkAttributes(Operation *op) {
  for (NamedAttribute attribute : op->getDiscardableAttrs()) {
    if (attribute.getName().getValue().contains('.'))
      continue;
    InFlightDiagnostic error = op->emitOpError("has no attribute '")
                               << attribute.getName().getValue() << "'";
    StringRef separator = "; it has ";
    for (StringAttr known : op->getRegisteredInfo()->getAttributeNames()) {
      error << separator << known.getValue();
      separator = ", ";
    }
    return error;
  }
  return success();
}

LogicalResult checkDialects(ModuleOp module) {
  WalkResult result = module.walk<WalkOrder::PreOrder>([&](Operation *op)
                                                           -> WalkResult {
    if (op == module)
      return WalkResult::advance();
    Dialect *dialect = op->getDialect();
    if (!isa_and_nonnull<QwenDialect, arith::ArithDialect, math::MathDialect,
                         func::FuncDialect>(dialect))
      return op->emitOpError("is not part of a model; expected qwen, arith, "
                             "math and func ops");
    if (failed(checkAttributes(op)))
      return WalkResult::interrupt();
    // qwen ops verify their own tensors; arith and math would take any.
    if (!isa<QwenDialect>(dialect) &&
        (failed(checkValues(op)) || failed(detail::verifyStaticTensors(op))))
      return WalkResult::interrupt();
    if (isa<AccumulateGradOp, GradNormOp, AdamWOp, GroupOp>(op))
      return op->emitOpError("is made by the compiler and cannot be part of a "
                             "model");
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// Depth-first over the call graph; `path` holds the callers.
LogicalResult checkCalls(func::FuncOp function, ModuleOp module,
                         llvm::SetVector<Operation *> &path,
                         llvm::SmallPtrSetImpl<Operation *> &done) {
  if (done.contains(function))
    return success();
  if (!path.insert(function))
    return function.emitOpError("calls itself; a model has no recursion");
  if (function.isExternal())
    return function.emitOpError("has no body");
  if (!function.getBody().hasOneBlock())
    return function.emitOpError("has ")
           << function.getBody().getBlocks().size()
           << " blocks, expected 1: a model has no control flow";
  for (auto call : function.getBody().front().getOps<func::CallOp>()) {
    auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
    if (!callee)
      return call.emitOpError("calls unknown function @") << call.getCallee();
    // Its inputs and outputs are the runtime's; the compiler renames it.
    if (callee.isPublic())
      return call.emitOpError("calls @")
             << call.getCallee()
             << ", which is public; called functions must be private";
    if (failed(checkCalls(callee, module, path, done)))
      return failure();
  }
  path.remove(function);
  done.insert(function);
  return success();
}

/// Follows document boundaries from the ops that read them to the programs'
/// input. A pack's boundaries are known to the runtime alone: any other source
/// would let documents see each other.
class BoundaryCheck {
public:
  explicit BoundaryCheck(ModuleOp module) : module(module) {}

  LogicalResult run(func::FuncOp program) {
    for (unsigned argument : argumentsOf(program)) {
      auto name = program.getArgAttrOfType<StringAttr>(argument, "qwen.input");
      if (!name || name != "cu_seqlens")
        return program.emitOpError("argument ")
               << argument
               << " is used as document boundaries, which must be the input "
                  "cu_seqlens";
    }
    return success(!hasFailed);
  }

private:
  /// Numbers of the arguments that ops of the function, or of those that it
  /// calls, take as boundaries.
  const llvm::SetVector<unsigned> &argumentsOf(func::FuncOp function) {
    if (auto it = known.find(function); it != known.end())
      return it->second;
    llvm::SetVector<unsigned> found;
    for (Operation &op : function.getBody().front()) {
      if (auto conv = dyn_cast<CausalConv1dOp>(op))
        note(&op, conv.getCuSeqlens(), found);
      else if (auto delta = dyn_cast<GatedDeltaOp>(op))
        note(&op, delta.getCuSeqlens(), found);
      else if (auto attention = dyn_cast<AttentionOp>(op))
        note(&op, attention.getCuSeqlens(), found);
      else if (auto call = dyn_cast<func::CallOp>(op))
        for (unsigned argument :
             argumentsOf(module.lookupSymbol<func::FuncOp>(call.getCallee())))
          note(&op, call.getOperand(argument), found);
    }
    return known[function] = std::move(found);
  }

  void note(Operation *op, Value boundaries,
            llvm::SetVector<unsigned> &arguments) {
    if (auto argument = dyn_cast<BlockArgument>(boundaries)) {
      arguments.insert(argument.getArgNumber());
      return;
    }
    hasFailed = true;
    op->emitOpError("takes its document boundaries from ")
        << boundaries.getDefiningOp()->getName()
        << "; expected the input cu_seqlens, handed on as it is";
  }

  ModuleOp module;
  // References into it stay valid while it grows.
  std::map<Operation *, llvm::SetVector<unsigned>> known;
  bool hasFailed = false;
};

LogicalResult checkInputs(func::FuncOp function, ArrayRef<Slot> expected) {
  if (function.getNumArguments() != expected.size())
    return function.emitOpError("has ")
           << function.getNumArguments() << " arguments, expected "
           << expected.size();
  llvm::SmallSet<StringRef, 4> seen;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto name = function.getArgAttrOfType<StringAttr>(i, "qwen.input");
    const Slot *slot =
        name ? llvm::find_if(expected,
                             [&](Slot s) { return s.name == name.getValue(); })
             : expected.end();
    if (slot == expected.end() || !seen.insert(slot->name).second)
      return function.emitOpError("argument ")
             << i << " needs its own qwen.input among tokens, labels, "
             << "positions, cu_seqlens";
    auto type = dyn_cast<RankedTensorType>(function.getArgumentTypes()[i]);
    if (!type || type.getRank() != 1 || !type.getElementType().isInteger(32) ||
        type.getDimSize(0) != slot->size)
      return function.emitOpError("input '")
             << slot->name << "' has type " << function.getArgumentTypes()[i]
             << ", expected tensor<" << slot->size << "xi32>";
  }
  return success();
}

LogicalResult checkOutput(func::FuncOp function, StringRef name, int64_t rank,
                          int64_t tokens) {
  auto attr = function.getNumResults() == 1
                  ? function.getResultAttrOfType<StringAttr>(0, "qwen.output")
                  : StringAttr();
  if (!attr || attr.getValue() != name)
    return function.emitOpError("must have one result, with qwen.output = \"")
           << name << "\"";
  auto type = dyn_cast<RankedTensorType>(function.getResultTypes()[0]);
  if (!type || type.getRank() != rank || type.getDimSize(0) != tokens ||
      !isa<Float32Type, Float64Type>(type.getElementType()))
    return function.emitOpError("output '")
           << name << "' has type " << function.getResultTypes()[0]
           << ", expected rank " << rank << ", " << tokens
           << " rows, f32 or f64";
  return success();
}

/// Token ids and labels are below qwen.model's vocab_size: that many rows must
/// be there for them.
LogicalResult checkVocabulary(func::FuncOp function, ModuleOp module) {
  auto model = module->getAttrOfType<DictionaryAttr>("qwen.model");
  auto size = model ? model.getAs<IntegerAttr>("vocab_size") : IntegerAttr();
  if (!size)
    return success();
  auto check = [&](Operation *op, Value ids, Value table) -> LogicalResult {
    int64_t rows = cast<RankedTensorType>(table.getType()).getDimSize(0);
    auto input = dyn_cast<BlockArgument>(ids);
    auto name = input ? function.getArgAttrOfType<StringAttr>(
                            input.getArgNumber(), "qwen.input")
                      : StringAttr();
    if (!name || (name != "tokens" && name != "labels") ||
        rows >= size.getInt())
      return success();
    return op->emitOpError("has a table of ")
           << rows << " rows for " << name.getValue()
           << ", but qwen.model says vocab_size = " << size.getInt();
  };
  for (Operation &op : function.getBody().front()) {
    if (auto embedding = dyn_cast<EmbeddingOp>(op))
      if (failed(check(&op, embedding.getIds(), embedding.getTable())))
        return failure();
    if (auto loss = dyn_cast<LinearCrossEntropyOp>(op))
      if (failed(check(&op, loss.getLabels(), loss.getW())))
        return failure();
  }
  return success();
}

struct VerifyImportPass : impl::VerifyImportPassBase<VerifyImportPass> {
  FailureOr<int64_t> sizeAttr(StringRef name) {
    auto attr = getOperation()->getAttrOfType<IntegerAttr>(name);
    if (attr && attr.getType().isSignlessInteger(64) && attr.getInt() > 0 &&
        attr.getInt() < maxDimension)
      return attr.getInt();
    return getOperation().emitError()
           << "the model needs a positive integer attribute " << name
           << " below " << maxDimension;
  }

  LogicalResult check() {
    ModuleOp module = getOperation();
    auto tokens = sizeAttr("qwen.tokens");
    if (failed(tokens))
      return failure();
    auto documents = sizeAttr("qwen.max_documents");
    if (failed(documents) || failed(checkDialects(module)))
      return failure();
    if (module.getOps<ParameterOp>().empty())
      return module.emitError("the model has no qwen.parameter");
    llvm::SetVector<Operation *> path;
    llvm::SmallPtrSet<Operation *, 16> done;
    for (auto function : module.getOps<func::FuncOp>())
      if (failed(checkCalls(function, module, path, done)))
        return failure();
    auto forward = module.lookupSymbol<func::FuncOp>("forward");
    if (!forward)
      return module.emitError("the model has no function @forward");
    Slot all[] = {{"tokens", *tokens},
                  {"positions", *tokens},
                  {"cu_seqlens", *documents + 1},
                  {"labels", *tokens}};
    if (failed(checkInputs(forward, all)) ||
        failed(checkOutput(forward, "nll", 1, *tokens)) ||
        failed(checkVocabulary(forward, module)))
      return failure();
    BoundaryCheck boundaries(module);
    if (failed(boundaries.run(forward)))
      return failure();
    auto logits = module.lookupSymbol<func::FuncOp>("logits");
    if (logits &&
        (failed(checkInputs(logits, ArrayRef<Slot>(all).drop_back())) ||
         failed(checkOutput(logits, "logits", 2, *tokens)) ||
         failed(checkVocabulary(logits, module)) ||
         failed(boundaries.run(logits))))
      return failure();
    return success();
  }

  void runOnOperation() override {
    if (failed(check()))
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace qwen
