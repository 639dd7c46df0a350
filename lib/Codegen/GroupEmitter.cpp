//===- GroupEmitter.cpp - Loops of one fused group ------------------------===//

#include "GroupEmitter.h"

#include "CodeSymbols.h"
#include "GroupValues.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace qwen;

namespace {

/// An input or output of the group in memory.
struct Place {
  Value base;                // address of the first element
  Value row;                 // address of the current row's first element
  Type element;              // as stored
  MemRefType type;           // layout
  SmallVector<int64_t> dims; // iteration-space dimension of each dimension
};

/// A few columns of the current row.
struct Columns {
  Value first;   // i64
  int64_t width; // lanes
};

class GroupEmitter {
public:
  GroupEmitter(OpBuilder &b, kernel::GroupFunctionOp group,
               const GroupAnalysis &analysis)
      : b(b), group(group), analysis(analysis), loc(group.getLoc()),
        body(group.getBody().front()),
        values(b, body, analysis, Processor::Cpu) {}

  LogicalResult emit();

private:
  // Function level.
  func::FuncOp createFunction();
  Place createPlace(Value operands, int64_t index, Type type,
                    ArrayRef<int64_t> dims);
  void createPlaces(Value operands, Value partials);
  void createScratch();

  // Row level.
  LogicalResult emitRow(Value row);
  void setRowAddresses(Value row);
  LogicalResult emitSweep(int sweep, bool last);
  void emitRotation(RopeOp rope);
  void storeRowOutputs();

  // Column level.
  LogicalResult emitColumns(int sweep, bool last, Columns columns,
                            MutableArrayRef<ReduceSumOp> sums,
                            SmallVectorImpl<Value> &accumulators);
  FailureOr<Value> columnValue(Value value, Columns columns);
  LogicalResult storeColumns(Columns columns);

  // Memory and small arithmetic.
  Value constant(int64_t value) {
    return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
  }
  Value address(Value base, Type element, Value index);
  Value load(Value address, Type element, int64_t width);
  void store(Value value, Value address, Type element);
  Value padded(Value vector, int64_t width);

  OpBuilder &b;
  kernel::GroupFunctionOp group;
  const GroupAnalysis &analysis;
  Location loc;
  Block &body;
  GroupValues values;

  SmallVector<Place> inputs, outputs;
  ValueMap scratch;                        // rotation result -> row buffer
  DenseMap<Operation *, Value> partialsOf; // column sum -> its partial sums
  ValueMap rowValues;                      // of the current row
  ValueMap memo;                           // of the current columns
  Value token;                             // first index of the current row
};

} // namespace

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value GroupEmitter::address(Value base, Type element, Value index) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  return LLVM::GEPOp::create(b, loc, pointer, element, base,
                             ArrayRef<LLVM::GEPArg>{index});
}

static Type vectorOf(Type element, int64_t width) {
  return width == 0 ? element : VectorType::get({width}, element);
}

static unsigned bytesOf(Type element) {
  return element.getIntOrFloatBitWidth() / 8;
}

Value GroupEmitter::load(Value from, Type element, int64_t width) {
  if (!element.isBF16())
    return LLVM::LoadOp::create(b, loc, vectorOf(element, width), from,
                                bytesOf(element));
  Value bits = LLVM::LoadOp::create(b, loc, vectorOf(b.getI16Type(), width),
                                    from, bytesOf(element));
  Type wide = vectorOf(b.getI32Type(), width);
  bits = arith::ExtUIOp::create(b, loc, wide, bits);
  TypedAttr shift = b.getI32IntegerAttr(16);
  if (width)
    shift = DenseElementsAttr::get(cast<VectorType>(wide), shift);
  bits = arith::ShLIOp::create(b, loc, bits,
                               arith::ConstantOp::create(b, loc, shift));
  return arith::BitcastOp::create(b, loc, vectorOf(b.getF32Type(), width),
                                  bits);
}

void GroupEmitter::store(Value value, Value to, Type element) {
  if (element.isBF16()) {
    auto vector = dyn_cast<VectorType>(value.getType());
    int64_t width = vector ? vector.getDimSize(0) : 0;
    Type wide = vectorOf(b.getI32Type(), width);
    Value bits = arith::BitcastOp::create(b, loc, wide, value);
    TypedAttr shift = b.getI32IntegerAttr(16);
    if (width)
      shift = DenseElementsAttr::get(cast<VectorType>(wide), shift);
    bits = arith::ShRUIOp::create(b, loc, bits,
                                  arith::ConstantOp::create(b, loc, shift));
    value =
        arith::TruncIOp::create(b, loc, vectorOf(b.getI16Type(), width), bits);
  }
  LLVM::StoreOp::create(b, loc, value, to, bytesOf(element));
}

/// Pads with zeros behind the last lane.
Value GroupEmitter::padded(Value vector, int64_t width) {
  auto type = cast<VectorType>(vector.getType());
  int64_t have = type.getDimSize(0);
  if (have == width)
    return vector;
  SmallVector<int64_t> mask;
  for (int64_t i = 0; i < width; ++i)
    mask.push_back(i < have ? i : have);
  return vector::ShuffleOp::create(b, loc, vector, splat(b, loc, type, 0.0),
                                   mask);
}

//===----------------------------------------------------------------------===//
// Columns
//===----------------------------------------------------------------------===//

FailureOr<Value> GroupEmitter::columnValue(Value value, Columns columns) {
  auto leaf = [&](Value source) -> Value {
    if (auto argument = dyn_cast<BlockArgument>(source)) {
      Place &place = inputs[argument.getArgNumber()];
      return load(address(place.row, place.element, columns.first),
                  place.element, columns.width);
    }
    auto rotated = scratch.find(source);
    if (rotated == scratch.end())
      return nullptr;
    Type element = computeType(getElementTypeOrSelf(source));
    return load(address(rotated->second, element, columns.first), element,
                columns.width);
  };
  return values.columnValue(value, {columns.width, rowValues, memo, leaf});
}

/// Stores the column outputs and adds to the partial column sums.
LogicalResult GroupEmitter::storeColumns(Columns columns) {
  // Compute everything before the first store: an output may lie in the buffer
  // of an input that another output still needs.
  for (Value value : body.getTerminator()->getOperands()) {
    auto sum = value.getDefiningOp<ReduceSumOp>();
    if (sum && !isRowSum(sum, analysis))
      value = sum.getX();
    if (analysis.runsOverColumns(value) && failed(columnValue(value, columns)))
      return failure();
  }
  for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands())) {
    auto sum = value.getDefiningOp<ReduceSumOp>();
    if (sum && !isRowSum(sum, analysis)) {
      auto x = columnValue(sum.getX(), columns);
      if (failed(x))
        return failure();
      Type element = getElementTypeOrSelf(value);
      Value at = address(partialsOf[sum], element, columns.first);
      Value old = load(at, element, columns.width);
      store(arith::AddFOp::create(b, loc, old, *x), at, element);
    } else if (analysis.runsOverColumns(value)) {
      auto x = columnValue(value, columns);
      if (failed(x))
        return failure();
      Place &place = outputs[i];
      store(*x, address(place.row, place.element, columns.first),
            place.element);
    }
  }
  return success();
}

LogicalResult GroupEmitter::emitColumns(int sweep, bool last, Columns columns,
                                        MutableArrayRef<ReduceSumOp> sums,
                                        SmallVectorImpl<Value> &accumulators) {
  memo.clear();
  for (auto [i, sum] : llvm::enumerate(sums)) {
    auto x = columnValue(sum.getX(), columns);
    if (failed(x))
      return failure();
    int64_t width = cast<VectorType>(accumulators[i].getType()).getDimSize(0);
    accumulators[i] =
        arith::AddFOp::create(b, loc, accumulators[i], padded(*x, width));
  }
  for (auto rope : body.getOps<RopeOp>()) {
    if (analysis.sweep(rope.getY()) != sweep + 1)
      continue;
    auto x = columnValue(rope.getX(), columns);
    if (failed(x))
      return failure();
    Type element = computeType(getElementTypeOrSelf(rope.getX()));
    store(*x, address(scratch[rope.getY()], element, columns.first), element);
  }
  LogicalResult stored = last ? storeColumns(columns) : success();
  memo.clear();
  return stored;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void GroupEmitter::setRowAddresses(Value row) {
  // Row = token * heads + head; without heads the row is the token.
  SmallVector<Value> index(analysis.domain().size());
  index[0] = row;
  if (analysis.domain().size() == 3) {
    Value heads = constant(analysis.domain()[1]);
    index[0] = arith::DivUIOp::create(b, loc, row, heads);
    index[1] = arith::RemUIOp::create(b, loc, row, heads);
  }
  token = index[0];
  int64_t columnDim = analysis.domain().size() == 1
                          ? -1
                          : static_cast<int64_t>(analysis.domain().size()) - 1;
  auto set = [&](Place &place) {
    auto [strides, offset] = place.type.getStridesAndOffset();
    Value total = constant(0);
    for (auto [i, dim] : llvm::enumerate(place.dims)) {
      if (dim == columnDim)
        continue;
      Value step =
          arith::MulIOp::create(b, loc, index[dim], constant(strides[i]));
      total = arith::AddIOp::create(b, loc, total, step);
    }
    place.row = address(place.base, place.element, total);
  };
  for (Place &place : inputs)
    set(place);
  for (Place &place : outputs)
    if (place.base)
      set(place);
}

/// Rotates a row buffer in place: pairs j and j + half for j < half.
void GroupEmitter::emitRotation(RopeOp rope) {
  Type element = computeType(getElementTypeOrSelf(rope.getX()));
  Value buffer = scratch[rope.getY()];
  Place &angles = inputs[cast<BlockArgument>(rope.getAngles()).getArgNumber()];
  int64_t half = angles.type.getDimSize(1) / 2;
  auto rotate = [&](Value j, int64_t width) {
    Value partner = arith::AddIOp::create(b, loc, j, constant(half));
    Value x = load(address(buffer, element, j), element, width);
    Value y = load(address(buffer, element, partner), element, width);
    Value cosine =
        load(address(angles.row, angles.element, j), angles.element, width);
    Value sine = load(address(angles.row, angles.element, partner),
                      angles.element, width);
    if (rope.getInverse())
      sine = arith::NegFOp::create(b, loc, sine);
    auto mul = [&](Value l, Value r) -> Value {
      return arith::MulFOp::create(b, loc, l, r);
    };
    Value first = arith::SubFOp::create(b, loc, mul(x, cosine), mul(y, sine));
    Value second = arith::AddFOp::create(b, loc, mul(y, cosine), mul(x, sine));
    store(first, address(buffer, element, j), element);
    store(second, address(buffer, element, partner), element);
  };
  int64_t width = lanes(element), whole = half / width * width;
  if (whole) {
    auto loop = scf::ForOp::create(b, loc, constant(0), constant(whole),
                                   constant(width));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    rotate(loop.getInductionVar(), width);
  }
  if (half > whole)
    rotate(constant(whole), half - whole);
}

LogicalResult GroupEmitter::emitSweep(int sweep, bool last) {
  SmallVector<ReduceSumOp> sums;
  for (auto sum : body.getOps<ReduceSumOp>())
    if (isRowSum(sum, analysis) && analysis.sweep(sum.getY()) == sweep + 1)
      sums.push_back(sum);
  int64_t width = 0;
  SmallVector<Value> accumulators;
  for (Value value : llvm::concat<Value>(
           llvm::to_vector(body.getArguments()),
           llvm::to_vector(body.getTerminator()->getOperands())))
    width = std::max(width, lanes(computeType(getElementTypeOrSelf(value))));
  for (ReduceSumOp sum : sums) {
    Type element = getElementTypeOrSelf(sum.getY());
    accumulators.push_back(
        splat(b, loc, VectorType::get({width}, element), 0.0));
  }
  int64_t columns = analysis.columns(), whole = columns / width * width;
  if (whole) {
    auto loop = scf::ForOp::create(b, loc, constant(0), constant(whole),
                                   constant(width), accumulators);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    SmallVector<Value> inner(loop.getRegionIterArgs());
    if (failed(emitColumns(sweep, last, {loop.getInductionVar(), width}, sums,
                           inner)))
      return failure();
    // Without results the builder has made the terminator already.
    if (!inner.empty())
      scf::YieldOp::create(b, loc, inner);
    accumulators.assign(loop.getResults().begin(), loop.getResults().end());
  }
  if (columns > whole &&
      failed(emitColumns(sweep, last, {constant(whole), columns - whole}, sums,
                         accumulators)))
    return failure();
  for (auto [sum, accumulator] : llvm::zip_equal(sums, accumulators))
    rowValues[sum.getY()] = horizontalSum(b, loc, accumulator);
  for (auto rope : body.getOps<RopeOp>())
    if (analysis.sweep(rope.getY()) == sweep + 1)
      emitRotation(rope);
  return success();
}

void GroupEmitter::storeRowOutputs() {
  for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands()))
    if (!analysis.runsOverColumns(value))
      store(rowValues.lookup(value), outputs[i].row, outputs[i].element);
}

LogicalResult GroupEmitter::emitRow(Value row) {
  rowValues.clear();
  setRowAddresses(row);
  for (BlockArgument argument : body.getArguments())
    if (values.isRowInput(argument)) {
      Place &place = inputs[argument.getArgNumber()];
      rowValues[argument] = load(place.row, place.element, 0);
    }
  bool hasColumns = analysis.domain().size() > 1;
  int sweeps = analysis.sweepCount();
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    if (failed(values.emitRowValues(sweep, rowValues)))
      return failure();
    if (hasColumns && failed(emitSweep(sweep, sweep + 1 == sweeps)))
      return failure();
  }
  if (failed(values.emitRowValues(sweeps, rowValues)))
    return failure();
  storeRowOutputs();
  return success();
}

//===----------------------------------------------------------------------===//
// Function
//===----------------------------------------------------------------------===//

func::FuncOp GroupEmitter::createFunction() {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  Type i64 = b.getI64Type();
  auto type = b.getFunctionType({pointer, pointer, i64, i64}, {});
  auto function = func::FuncOp::create(b, loc, group.getSymName(), type);
  setCodeSymbol(function, group, naturalAlignments(group), {});
  return function;
}

Place GroupEmitter::createPlace(Value operands, int64_t index, Type type,
                                ArrayRef<int64_t> dims) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto memref = cast<MemRefType>(type);
  Value slot = address(operands, pointer, constant(index));
  Value base = LLVM::LoadOp::create(b, loc, pointer, slot);
  return {base, base, memref.getElementType(), memref,
          SmallVector<int64_t>(dims)};
}

void GroupEmitter::createPlaces(Value operands, Value partials) {
  int64_t index = 0;
  for (auto [argument, type] :
       llvm::zip_equal(body.getArguments(), group.getInputTypes()))
    inputs.push_back(createPlace(operands, index++,
                                 cast<TypeAttr>(type).getValue(),
                                 analysis.dims(argument)));
  int64_t partialBytes = 0;
  for (auto [value, type] : llvm::zip_equal(body.getTerminator()->getOperands(),
                                            group.getOutputTypes())) {
    auto sum = value.getDefiningOp<ReduceSumOp>();
    if (!sum || isRowSum(sum, analysis)) {
      outputs.push_back(createPlace(operands, index++,
                                    cast<TypeAttr>(type).getValue(),
                                    analysis.dims(value)));
      continue;
    }
    ++index;
    outputs.emplace_back();
    partialsOf[sum] = address(partials, b.getI8Type(), constant(partialBytes));
    partialBytes += analysis.columns() * bytesOf(getElementTypeOrSelf(value));
  }
  if (partialBytes)
    LLVM::MemsetOp::create(
        b, loc, partials,
        arith::ConstantOp::create(b, loc, b.getI8IntegerAttr(0)),
        constant(partialBytes), /*isVolatile=*/false);
}

void GroupEmitter::createScratch() {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  for (auto rope : body.getOps<RopeOp>()) {
    Type element = computeType(getElementTypeOrSelf(rope.getX()));
    scratch[rope.getY()] =
        LLVM::AllocaOp::create(b, loc, pointer, element,
                               constant(analysis.columns()), /*alignment=*/64);
  }
}

LogicalResult GroupEmitter::emit() {
  func::FuncOp function = createFunction();
  OpBuilder::InsertionGuard guard(b);
  Block *entry = function.addEntryBlock();
  b.setInsertionPointToStart(entry);
  createPlaces(entry->getArgument(0), entry->getArgument(1));
  createScratch();
  auto rows = scf::ForOp::create(b, loc, entry->getArgument(2),
                                 entry->getArgument(3), constant(1));
  {
    OpBuilder::InsertionGuard rowGuard(b);
    b.setInsertionPointToStart(rows.getBody());
    if (failed(emitRow(rows.getInductionVar())))
      return failure();
  }
  func::ReturnOp::create(b, loc);
  return success();
}

LogicalResult qwen::emitGroup(OpBuilder &builder,
                              kernel::GroupFunctionOp group) {
  auto analysis = GroupAnalysis::create(group);
  if (failed(analysis))
    return failure();
  return GroupEmitter(builder, group, *analysis).emit();
}
