//===- QwenDialect.cpp - The qwen dialect: syntax and shapes --------------===//
//
// Registration, the custom syntax of groups and document boundaries, result
// types, and the resolution of parameter names.
//
//===----------------------------------------------------------------------===//

#include "dialects/Qwen/Qwen.h"
#include "dialects/Qwen/TypeRules.h"
#include "qwen/Plan/Sharding.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace qwen;

//===----------------------------------------------------------------------===//
// Document boundaries
//===----------------------------------------------------------------------===//

/// Parses `, %cu_seqlens`. An op without its boundaries gets a message that
/// says why it cannot do without them.
static ParseResult
parseDocumentBoundaries(OpAsmParser &parser,
                        OpAsmParser::UnresolvedOperand &boundaries) {
  if (failed(parser.parseOptionalComma()))
    return parser.emitError(
        parser.getCurrentLocation(),
        "expected ',' and the document boundaries (cu_seqlens) as the last "
        "operand: without them one packed document would leak into the next");
  return parser.parseOperand(boundaries);
}

static void printDocumentBoundaries(OpAsmPrinter &printer, Operation *,
                                    Value boundaries) {
  printer << ", " << boundaries;
}

//===----------------------------------------------------------------------===//
// Registration
//===----------------------------------------------------------------------===//

#include "dialects/Qwen/QwenDialect.cpp.inc"
#include "dialects/Qwen/QwenInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Qwen/QwenOps.cpp.inc"

void QwenDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Qwen/QwenOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Result types
//===----------------------------------------------------------------------===//

using TypeRuleFunction = RankedTensorType (*)(EmitError, TensorTypes);

/// Applies a rule to the types of operands; null where one is not ranked.
static RankedTensorType apply(TypeRuleFunction rule, EmitError emit,
                              ValueRange operands) {
  SmallVector<RankedTensorType> types;
  for (Value operand : operands) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    if (!type)
      return {};
    types.push_back(type);
  }
  return rule(emit, types);
}

/// Result type inference and the verification of one rule.
#define QWEN_TYPE_RULE(OpName, operandCount, rule)                             \
  LogicalResult OpName::inferReturnTypes(                                      \
      MLIRContext *context, std::optional<Location> location,                  \
      ValueRange operands, DictionaryAttr, OpaqueProperties, RegionRange,      \
      SmallVectorImpl<Type> &results) {                                        \
    if (operands.size() != operandCount)                                       \
      return failure();                                                        \
    auto emit = [&] {                                                          \
      return mlir::emitError(location.value_or(UnknownLoc::get(context)))      \
             << "'" << getOperationName() << "' op ";                          \
    };                                                                         \
    results.push_back(apply(rule, emit, operands));                            \
    return success(results.back() != nullptr);                                 \
  }                                                                            \
  LogicalResult OpName::verifyTypes() {                                        \
    auto emit = [&] { return emitOpError(); };                                 \
    RankedTensorType type = apply(rule, emit, getOperands());                  \
    if (!type)                                                                 \
      return failure();                                                        \
    return expectType(emit, "the result", getResult().getType(), type);        \
  }
QWEN_TYPE_RULE(LinearOp, 2, linearType)
QWEN_TYPE_RULE(EmbeddingOp, 2, embeddingType)
QWEN_TYPE_RULE(CausalConv1dOp, 3, causalConv1dType)
QWEN_TYPE_RULE(GatedDeltaOp, 6, gatedDeltaType)
#undef QWEN_TYPE_RULE

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

RankedTensorType
qwen::stackedParameterType(Operation *op, ArrayAttr parameters,
                           SymbolTableCollection &symbolTable) {
  RankedTensorType first;
  SymbolRefAttr firstName;
  int64_t rows = 0;
  for (Attribute attribute : parameters) {
    auto name = cast<SymbolRefAttr>(attribute);
    auto parameter = symbolTable.lookupNearestSymbolFrom<ParameterOp>(op, name);
    if (!parameter) {
      op->emitOpError() << name << " does not name a qwen.parameter";
      return {};
    }
    auto type = dyn_cast<RankedTensorType>(parameter.getType());
    // A parameter of another shape is that parameter's own error.
    if (!type || !type.hasStaticShape() || type.getRank() == 0)
      return {};
    if (!first) {
      first = type;
      firstName = name;
    } else if (type.getElementType() != first.getElementType() ||
               type.getShape().drop_front() != first.getShape().drop_front()) {
      op->emitOpError() << "stacks parameters that differ in more than their "
                           "rows: "
                        << firstName << " is " << first << ", but " << name
                        << " is " << type;
      return {};
    }
    rows += type.getDimSize(0);
  }
  if (!first) {
    op->emitOpError() << "must name at least one parameter";
    return {};
  }
  SmallVector<int64_t> shape(first.getShape());
  shape[0] = rows;
  return RankedTensorType::get(shape, first.getElementType());
}

LogicalResult
GetParameterOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  RankedTensorType type =
      stackedParameterType(*this, getParameters(), symbolTable);
  if (!type)
    return failure();
  return expectType([&] { return emitOpError(); }, "value",
                    getValue().getType(), type);
}

LogicalResult
AccumulateGradOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  RankedTensorType type =
      stackedParameterType(*this, getParameters(), symbolTable);
  if (!type)
    return failure();
  return expectType([&] { return emitOpError(); }, "grad", getGrad().getType(),
                    type.clone(wideType(type.getElementType())));
}

/// Each of `parameters` must exist; they need not stack.
static LogicalResult verifyParameterList(Operation *op, ArrayAttr parameters,
                                         SymbolTableCollection &symbolTable) {
  if (parameters.empty())
    return op->emitOpError() << "must name at least one parameter";
  for (Attribute name : parameters)
    if (!symbolTable.lookupNearestSymbolFrom<ParameterOp>(
            op, cast<SymbolRefAttr>(name)))
      return op->emitOpError() << name << " does not name a qwen.parameter";
  return success();
}

LogicalResult GradNormOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  return verifyParameterList(*this, getParameters(), symbolTable);
}

LogicalResult AdamWOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  return verifyParameterList(*this, getParameters(), symbolTable);
}

//===----------------------------------------------------------------------===//
// Several ranks
//===----------------------------------------------------------------------===//

LogicalResult BucketOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  auto type = cast<RankedTensorType>(getType());
  int64_t end = 0;
  for (auto [name, offset] : llvm::zip_equal(getParameters(), getOffsets())) {
    auto parameter = symbolTable.lookupNearestSymbolFrom<ParameterOp>(
        *this, cast<SymbolRefAttr>(name));
    if (!parameter)
      return emitOpError() << name << " does not name a qwen.parameter";
    auto part = cast<RankedTensorType>(parameter.getType());
    if (part.getElementType() != type.getElementType())
      return emitOpError() << "has elements of " << type.getElementType()
                           << ", but " << name << " is " << part;
    if (offset < end || (offset != end && offset % bucketAlignment != 0))
      return emitOpError() << "offset of " << name << " must be " << end
                           << " or a later multiple of " << bucketAlignment
                           << ", but is " << offset;
    end = offset + part.getNumElements();
    if (end > type.getNumElements())
      return emitOpError() << "must hold " << name << " up to element " << end
                           << ", but has " << type.getNumElements();
  }
  return success();
}

/// The bucket of that name; an error where there is none.
static BucketOp findBucket(Operation *op, FlatSymbolRefAttr name,
                           SymbolTableCollection &symbolTable) {
  auto bucket = symbolTable.lookupNearestSymbolFrom<BucketOp>(op, name);
  if (!bucket)
    op->emitOpError() << name << " does not name a qwen.bucket";
  return bucket;
}

/// The bucket must exist; `flat` is as long, of `element`'s type or wider.
static LogicalResult verifyBucketUse(Operation *op, FlatSymbolRefAttr name,
                                     RankedTensorType flat, bool isWide,
                                     SymbolTableCollection &symbolTable) {
  BucketOp bucket = findBucket(op, name, symbolTable);
  if (!bucket)
    return failure();
  auto type = cast<RankedTensorType>(bucket.getType());
  if (isWide)
    type = type.clone(wideType(type.getElementType()));
  return expectType([&] { return op->emitOpError(); }, "flat", flat, type);
}

LogicalResult
AllGatherOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  return verifyBucketUse(*this, getBucketAttr(),
                         cast<RankedTensorType>(getFlat().getType()), false,
                         symbolTable);
}

LogicalResult
ReduceScatterOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  return verifyBucketUse(*this, getBucketAttr(),
                         cast<RankedTensorType>(getFlat().getType()), true,
                         symbolTable);
}

/// The bucket must exist and hold `name`, a table of rows like `rows`.
static LogicalResult verifyTableUse(Operation *op, FlatSymbolRefAttr bucketName,
                                    SymbolRefAttr name, RankedTensorType rows,
                                    SymbolTableCollection &symbolTable) {
  BucketOp bucket = findBucket(op, bucketName, symbolTable);
  if (!bucket)
    return failure();
  if (!llvm::is_contained(bucket.getParameters(), name))
    return op->emitOpError() << bucketName << " does not hold " << name;
  auto table = symbolTable.lookupNearestSymbolFrom<ParameterOp>(op, name);
  auto type =
      table ? cast<RankedTensorType>(table.getType()) : RankedTensorType();
  if (!type || type.getRank() != 2 || type.getDimSize(1) != rows.getDimSize(1))
    return op->emitOpError() << name << " is no table of rows as in " << rows;
  if (type.getElementType() != rows.getElementType())
    return op->emitOpError()
           << "rows must have the element type of " << name << ", "
           << type.getElementType() << ", but are " << rows;
  return success();
}

LogicalResult
ShardedEmbeddingOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  return verifyTableUse(*this, getBucketAttr(), getTableAttr(),
                        cast<RankedTensorType>(getY().getType()), symbolTable);
}

LogicalResult
ShardedEmbeddingGradOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  return verifyTableUse(*this, getBucketAttr(), getTableAttr(),
                        cast<RankedTensorType>(getDy().getType()), symbolTable);
}

//===----------------------------------------------------------------------===//
// Group
//===----------------------------------------------------------------------===//

// (%a = %x : type, ...) domain = [..] attributes {..} -> types { body }
ParseResult GroupOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> inputs;
  SMLoc inputsLoc = parser.getCurrentLocation();
  auto parseInput = [&]() -> ParseResult {
    if (parser.parseArgument(arguments.emplace_back()) || parser.parseEqual() ||
        parser.parseOperand(inputs.emplace_back()) ||
        parser.parseColonType(arguments.back().type))
      return failure();
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseInput))
    return failure();

  if (parser.parseKeyword("domain") || parser.parseEqual())
    return failure();
  auto domain = dyn_cast_or_null<DenseI64ArrayAttr>(
      DenseI64ArrayAttr::parse(parser, Type()));
  if (!domain)
    return failure();
  result.addAttribute(getDomainAttrName(result.name), domain);
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.parseOptionalArrowTypeList(result.types))
    return failure();

  SmallVector<Type> types;
  for (const OpAsmParser::Argument &argument : arguments)
    types.push_back(argument.type);
  if (parser.resolveOperands(inputs, types, inputsLoc, result.operands))
    return failure();
  Region *body = result.addRegion();
  if (parser.parseRegion(*body, arguments))
    return failure();
  ensureTerminator(*body, parser.getBuilder(), result.location);
  return success();
}

void GroupOp::print(OpAsmPrinter &printer) {
  printer << "(";
  llvm::interleaveComma(llvm::zip_equal(getBody().getArguments(), getInputs()),
                        printer, [&](auto pair) {
                          auto [argument, input] = pair;
                          printer << argument << " = " << input << " : "
                                  << input.getType();
                        });
  printer << ") domain = ";
  getDomainAttr().print(printer);
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                           {getDomainAttrName()});
  printer.printOptionalArrowTypeList(getResultTypes());
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false,
                      /*printBlockTerminators=*/true);
}
