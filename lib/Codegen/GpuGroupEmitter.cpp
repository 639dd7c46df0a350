//===- GpuGroupEmitter.cpp - Kernel of one fused group --------------------===//

#include "GpuGroupEmitter.h"

#include "CodeSymbols.h"
#include "GpuGroupCode.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/TypeUtilities.h"

#include <limits>

using namespace mlir;
using namespace qwen;

//===----------------------------------------------------------------------===//
// Memory and small arithmetic
//===----------------------------------------------------------------------===//

/// Quotient and remainder of an i64 below `bound`; in 32 bits where they do,
/// which takes a fraction of the instructions.
std::pair<Value, Value> GpuGroupCode::divide(Value x, int64_t divisor,
                                             int64_t bound) {
  if (divisor == 1)
    return {x, constant(0)};
  bool narrow = bound <= std::numeric_limits<int32_t>::max();
  Value d = constant(divisor);
  if (narrow) {
    x = arith::TruncIOp::create(b, loc, b.getI32Type(), x);
    d = arith::ConstantOp::create(
        b, loc, b.getI32IntegerAttr(static_cast<int32_t>(divisor)));
  }
  Value quotient = arith::DivUIOp::create(b, loc, x, d);
  Value remainder = arith::RemUIOp::create(b, loc, x, d);
  if (narrow)
    return {wide(quotient), wide(remainder)};
  return {quotient, remainder};
}

/// Row = token * heads + head; without heads the row is the token.
SmallVector<Value> GpuGroupCode::leadingIndex(Value row) {
  if (analysis.domain().size() < 3)
    return {row};
  auto [token, head] = divide(row, analysis.domain()[1], analysis.rows());
  return {token, head};
}

Value GpuGroupCode::placeAddress(const GpuPlace &place, ArrayRef<Value> index,
                                 Value column) {
  Value total = constant(0);
  for (auto [dim, stride] : llvm::zip_equal(place.dims, place.strides))
    total = add(total, static_cast<size_t>(dim) < index.size()
                           ? times(index[dim], stride)
                           : column);
  return gpu.address(place.base, place.element, total);
}

Value GpuGroupCode::loadInput(unsigned input, ArrayRef<Value> index,
                              Value column) {
  const GpuPlace &place = inputs[input];
  return gpu.load(placeAddress(place, index, column), place.element,
                  column ? geometry.width : 0);
}

Value GpuGroupCode::widen(Value stored) {
  return getElementTypeOrSelf(stored).isBF16() ? widenBf16(b, loc, stored)
                                               : stored;
}

Value GpuGroupCode::narrow(Value value, Type element) {
  return element.isBF16() ? narrowToBf16(b, loc, value) : value;
}

void GpuGroupCode::when(Value condition, llvm::function_ref<void()> emitThen) {
  if (!condition)
    return emitThen();
  auto branch = scf::IfOp::create(b, loc, condition, /*withElse=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  emitThen();
}

void GpuGroupCode::teamBarrier() {
  if (geometry.team <= 32)
    gpu.warpBarrier();
  else if (geometry.slots == 1)
    gpu.blockBarrier();
  else // barrier 0 is the block's
    gpu.teamBarrier(add(slot, constant(1)), geometry.team);
}

/// Whether an input is the same for every row.
bool GpuGroupCode::isFixed(BlockArgument argument) const {
  ArrayRef<int64_t> dims = analysis.dims(argument);
  return dims.empty() ||
         (dims.size() == 1 && analysis.runsOverColumns(argument));
}

//===----------------------------------------------------------------------===//
// Values and results
//===----------------------------------------------------------------------===//

FailureOr<Value> GpuGroupCode::cellValue(GpuRow &row, GpuCell &cell,
                                         Value value) {
  auto leaf = [&](Value source) -> Value {
    auto argument = dyn_cast<BlockArgument>(source);
    return argument ? widen(cell.raw[argument.getArgNumber()]) : Value();
  };
  return values.columnValue(value,
                            {geometry.width, row.values, cell.memo, leaf});
}

/// Stores what the rows of this thread have. Everything is computed before the
/// first store: an output may lie in the buffer of an input.
LogicalResult GpuGroupCode::storeOutputs(MutableArrayRef<GpuRow> rows) {
  ValueRange results = body.getTerminator()->getOperands();
  for (GpuRow &row : rows)
    for (GpuCell &cell : row.cells)
      for (Value value : results)
        if (analysis.runsOverColumns(value) &&
            !llvm::is_contained(columnSums, value.getDefiningOp()) &&
            failed(cellValue(row, cell, value)))
          return failure();
  for (GpuRow &row : rows)
    for (auto [value, place] : llvm::zip_equal(results, outputs)) {
      if (llvm::is_contained(columnSums, value.getDefiningOp()))
        continue;
      if (!analysis.runsOverColumns(value)) {
        Value first;
        if (!geometry.flat)
          first = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, lane,
                                        constant(0));
        when(both(row.present, first), [&] {
          gpu.store(narrow(row.values.lookup(value), place.element),
                    placeAddress(place, row.index, {}), 0);
        });
        continue;
      }
      for (GpuCell &cell : row.cells)
        when(both(row.present, cell.present), [&] {
          gpu.store(narrow(cell.memo.lookup(value), place.element),
                    placeAddress(place, row.index, cell.column),
                    geometry.width);
        });
    }
  return success();
}

//===----------------------------------------------------------------------===//
// Flat form
//===----------------------------------------------------------------------===//

GpuRow GpuGroupCode::flatRow(Value unit, int64_t total) {
  GpuRow row;
  if (total % (geometry.threads * geometry.unitsPerThread) != 0) {
    // Threads behind the end read the last unit and store nothing.
    row.present = less(unit, constant(total));
    unit = select(row.present, unit, constant(total - 1));
  }
  auto [number, unitOfRow] = divide(unit, geometry.units, total);
  row.index = leadingIndex(number);
  GpuCell &cell = row.cells.emplace_back();
  cell.column = times(unitOfRow, geometry.width);
  for (BlockArgument argument : body.getArguments()) {
    bool columns = analysis.runsOverColumns(argument);
    Value stored = loadInput(argument.getArgNumber(), row.index,
                             columns ? cell.column : Value());
    cell.raw.push_back(stored);
    if (!columns)
      row.values[argument] = stored; // widened when all loads are on their way
  }
  return row;
}

LogicalResult GpuGroupCode::emitFlat() {
  int64_t total = analysis.rows() * geometry.units;
  Value first =
      add(times(block, geometry.threads * geometry.unitsPerThread), thread);
  SmallVector<GpuRow> rows;
  for (int64_t i = 0; i < geometry.unitsPerThread; ++i)
    rows.push_back(flatRow(add(first, constant(i * geometry.threads)), total));
  for (GpuRow &row : rows) {
    for (auto &[argument, value] : row.values)
      value = widen(value);
    if (failed(values.emitRowValues(0, row.values)))
      return failure();
    if (analysis.domain().size() == 1)
      row.cells.clear();
  }
  return storeOutputs(rows);
}

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

void GpuGroupCode::inspect() {
  for (int64_t output : group.getColumnSums())
    columnSums.push_back(
        body.getTerminator()->getOperand(output).getDefiningOp<ReduceSumOp>());
  llvm::DenseMap<int, int64_t> sumsOfSweep;
  for (auto sum : body.getOps<ReduceSumOp>())
    if (isRowSum(sum, analysis))
      ++sumsOfSweep[analysis.sweep(sum.getY())];
  reductions = sumsOfSweep.size();
  SmallVector<Value> needed;
  for (Operation &op : body.without_terminator()) {
    auto sum = dyn_cast<ReduceSumOp>(op);
    bool endsSweep = isa<RopeOp>(op) || (sum && isRowSum(sum, analysis));
    if (endsSweep && analysis.sweep(op.getResult(0)) == 1)
      needed.push_back(op.getOperand(0));
  }
  while (!needed.empty()) {
    Value value = needed.pop_back_val();
    if (firstNeeds.insert(value).second && value.getDefiningOp())
      llvm::append_range(needed, value.getDefiningOp()->getOperands());
  }
  for (auto [sweep, sums] : sumsOfSweep)
    maxSums = std::max(maxSums, sums);
}

/// Places the block's shared memory; returns its bytes.
int64_t GpuGroupCode::layoutShared() {
  int64_t bytes = 0;
  if (geometry.team > 32)
    bytes =
        geometry.slots * std::max<int64_t>(2, reductions) * maxSums * 32 * 4;
  sharedRotation = bytes;
  int64_t rotated = 0;
  for (auto rope : body.getOps<RopeOp>())
    rotated = std::max(
        rotated,
        cast<RankedTensorType>(rope.getAngles().getType()).getDimSize(1));
  bytes = llvm::alignTo(bytes + geometry.slots * rotated * 4, 16);
  sharedColumns = bytes;
  if (!columnSums.empty() && geometry.slots > 1)
    bytes += geometry.slots * analysis.columns() * 4;
  return bytes;
}

Value GpuGroupCode::sharedAt(int64_t offset) {
  return gpu.address(shared, b.getI8Type(), constant(offset));
}

/// The kernel takes the operands' addresses, then that of the partial sums.
LLVM::LLVMFuncOp GpuGroupCode::createKernel(int64_t sharedBytes) {
  MLIRContext *context = b.getContext();
  Type global = LLVM::LLVMPointerType::get(context, /*addressSpace=*/1);
  size_t operands =
      group.getInputTypes().size() + group.getOutputTypes().size();
  SmallVector<Type> parameters(operands + 1, global);
  auto kernel = LLVM::LLVMFuncOp::create(
      b, loc, group.getSymName(),
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                  parameters));
  kernel->setAttr("nvvm.kernel", b.getUnitAttr());
  auto threads = static_cast<int32_t>(geometry.threads);
  kernel->setAttr("nvvm.reqntid", b.getDenseI32ArrayAttr({threads}));
  if (!geometry.flat)
    kernel->setAttr("nvvm.minctasm", b.getI32IntegerAttr(static_cast<int32_t>(
                                         geometry.residentBlocks)));
  if (sharedBytes) {
    auto type = LLVM::LLVMArrayType::get(b.getI8Type(), sharedBytes);
    std::string name = (group.getSymName() + "_shared").str();
    LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/false,
                           LLVM::Linkage::Internal, name, Attribute(),
                           /*alignment=*/16, /*addrSpace=*/3);
  }
  return kernel;
}

void GpuGroupCode::createPlaces(Block &entry) {
  unsigned index = 0;
  auto create = [&](Value value, Type type) {
    auto memref = cast<MemRefType>(type);
    auto [strides, offset] = memref.getStridesAndOffset();
    return GpuPlace{entry.getArgument(index++), memref.getElementType(),
                    strides, SmallVector<int64_t>(analysis.dims(value))};
  };
  for (auto [argument, type] :
       llvm::zip_equal(body.getArguments(),
                       group.getInputTypes().getAsValueRange<TypeAttr>()))
    inputs.push_back(create(argument, type));
  for (auto [value, type] :
       llvm::zip_equal(body.getTerminator()->getOperands(),
                       group.getOutputTypes().getAsValueRange<TypeAttr>()))
    outputs.push_back(create(value, type));
  int64_t partialBytes = 0;
  for (ReduceSumOp sum : columnSums)
    partialBytes += analysis.columns() *
                    getElementTypeOrSelf(sum.getY()).getIntOrFloatBitWidth() /
                    8;
  partials = gpu.address(entry.getArgument(index), b.getI8Type(),
                         times(block, llvm::alignTo(partialBytes, 64)));
}

/// What the loads and stores of each operand rely on.
SmallVector<int64_t> GpuGroupCode::requiredAlignments() {
  SmallVector<int64_t> alignments = naturalAlignments(group);
  auto alignment = alignments.begin();
  for (BlockArgument argument : body.getArguments()) {
    if (!values.isRowInput(argument))
      *alignment = std::min<int64_t>(16, *alignment * geometry.width);
    ++alignment;
  }
  for (Value value : body.getTerminator()->getOperands()) {
    if (analysis.runsOverColumns(value) &&
        !llvm::is_contained(columnSums, value.getDefiningOp()))
      *alignment = std::min<int64_t>(16, *alignment * geometry.width);
    ++alignment;
  }
  return alignments;
}

LogicalResult GpuGroupCode::emit() {
  inspect();
  int64_t sharedBytes = layoutShared();
  if (sharedBytes > maxStaticSharedBytes)
    return group.emitOpError("needs ")
           << sharedBytes << " bytes of shared memory, more than "
           << maxStaticSharedBytes;
  LLVM::LLVMFuncOp kernel = createKernel(sharedBytes);
  setCodeSymbol(kernel, group, requiredAlignments(),
                {geometry.threads, geometry.blocks, sharedBytes});
  OpBuilder::InsertionGuard guard(b);
  Block *entry = kernel.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  thread = wide(gpu.thread());
  block = wide(gpu.block());
  if (sharedBytes)
    shared = LLVM::AddressOfOp::create(
        b, loc, LLVM::LLVMPointerType::get(b.getContext(), 3),
        (group.getSymName() + "_shared").str());
  createPlaces(*entry);
  if (failed(geometry.flat ? emitFlat() : emitRows()))
    return failure();
  LLVM::ReturnOp::create(b, loc, ValueRange());
  return success();
}

/// The GPU's code holds f32 and bf16 only.
static LogicalResult checkTypes(kernel::GroupFunctionOp group) {
  for (ArrayAttr list : {group.getInputTypes(), group.getOutputTypes()})
    for (auto type : list.getAsValueRange<TypeAttr>()) {
      Type element = cast<MemRefType>(type).getElementType();
      if (!element.isF32() && !element.isBF16())
        return group.emitOpError("has an operand of type ")
               << type << "; generated GPU kernels take f32 and bf16";
    }
  return success();
}

FailureOr<int64_t> qwen::emitGpuGroup(OpBuilder &builder,
                                      kernel::GroupFunctionOp group,
                                      ArrayRef<int64_t> alignments) {
  if (failed(checkTypes(group)))
    return failure();
  auto analysis = GroupAnalysis::create(group);
  if (failed(analysis))
    return failure();
  auto geometry = chooseGeometry(group, *analysis, alignments);
  if (failed(geometry) ||
      failed(GpuGroupCode(builder, group, *analysis, *geometry).emit()))
    return failure();
  return geometry->rowsPerBlock;
}
