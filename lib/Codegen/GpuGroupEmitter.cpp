//===- GpuGroupEmitter.cpp - Kernel of one fused group --------------------===//

#include "GpuGroupEmitter.h"

#include "CodeSymbols.h"
#include "GpuGeometry.h"
#include "GpuThreads.h"
#include "GroupValues.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

#include <limits>

using namespace mlir;
using namespace qwen;

namespace {

/// An input or output of the group in memory.
struct Place {
  Value base; // address of the first element
  Type element;
  SmallVector<int64_t> strides;
  SmallVector<int64_t> dims; // iteration-space dimension of each dimension
};

/// A unit of a row.
struct Cell {
  Value column;  // first one, i64
  Value present; // i1; null where every thread has the unit
  /// As stored, by input; null where the input has no columns.
  SmallVector<Value> raw;
  ValueMap memo;
};

/// A row of which the thread has some units.
struct Row {
  SmallVector<Value> index; // of the leading dimensions, i64
  Value present;            // i1; null where every thread has the row
  ValueMap values;
  SmallVector<Cell> cells;
};

class GpuGroupEmitter {
public:
  GpuGroupEmitter(OpBuilder &b, kernel::GroupFunctionOp group,
                  const GroupAnalysis &analysis, const GpuGeometry &geometry)
      : b(b), group(group), analysis(analysis), geometry(geometry),
        loc(group.getLoc()), body(group.getBody().front()), gpu(b, loc),
        values(b, body, analysis, Processor::Gpu) {}

  LogicalResult emit();

private:
  // Kernel.
  SmallVector<int64_t> requiredAlignments();
  void inspect();
  int64_t layoutShared();
  Value sharedAt(int64_t offset);
  LLVM::LLVMFuncOp createKernel(int64_t sharedBytes);
  void createPlaces(Block &entry);

  // Flat form.
  LogicalResult emitFlat();
  Row flatRow(Value unit, int64_t total);

  // Rows form.
  LogicalResult emitRows();
  SmallVector<Cell> createCells();
  void loadFixed(SmallVectorImpl<Cell> &cells);
  Row rowAt(Value base);
  SmallVector<Value> loadRow(Row &row);
  void takeRow(Row &row, ValueRange loaded);
  LogicalResult emitRow(Row &row, SmallVectorImpl<Value> &columnTotals);
  LogicalResult emitRowSums(int sweep, Row &row);
  void addWarps(MutableArrayRef<Value> sums);
  LogicalResult emitRotation(RopeOp rope, Row &row);
  Value rotated(RopeOp rope, Row &row, Cell &cell, Value x);
  LogicalResult addToColumnTotals(Row &row, SmallVectorImpl<Value> &totals);
  void storeColumnTotals(ArrayRef<Cell> cells, ValueRange totals);
  void addSlots(Value partialSums, Type element);

  // Both forms.
  LogicalResult storeOutputs(MutableArrayRef<Row> rows);
  FailureOr<Value> cellValue(Row &row, Cell &cell, Value value);
  void teamBarrier();

  // Memory and small arithmetic.
  SmallVector<Value> leadingIndex(Value row);
  Value placeAddress(const Place &place, ArrayRef<Value> index, Value column);
  Value loadInput(unsigned input, ArrayRef<Value> index, Value column);
  Value widen(Value stored);
  Value narrow(Value value, Type element);
  Value constant(int64_t value) {
    return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
  }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value times(Value x, int64_t y) {
    return arith::MulIOp::create(b, loc, x, constant(y));
  }
  Value less(Value x, Value y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, x, y);
  }
  Value select(Value condition, Value x, Value y) {
    return condition ? Value(arith::SelectOp::create(b, loc, condition, x, y))
                     : x;
  }
  Value both(Value x, Value y) {
    return x && y ? Value(arith::AndIOp::create(b, loc, x, y)) : x ? x : y;
  }
  Value wide(Value i32) {
    return arith::ExtUIOp::create(b, loc, b.getI64Type(), i32);
  }
  std::pair<Value, Value> divide(Value x, int64_t divisor, int64_t bound);
  /// Runs `emitThen` under the condition, or always where it is null.
  void when(Value condition, llvm::function_ref<void()> emitThen);
  bool isFixed(BlockArgument argument) const;

  OpBuilder &b;
  kernel::GroupFunctionOp group;
  const GroupAnalysis &analysis;
  const GpuGeometry &geometry;
  Location loc;
  Block &body;
  GpuThreads gpu;
  GroupValues values;

  SmallVector<Place> inputs, outputs;
  SmallVector<ReduceSumOp> columnSums; // in the order of the outputs
  Value partials;                      // of this block
  Value shared;
  int64_t sharedRotation = 0, sharedColumns = 0; // offsets
  int64_t reductions = 0, maxSums = 0; // sweeps of a row with sums; sums of one
  Value thread, block;    // i64
  Value lane, slot;       // in the team, of the team
  Value blockBegin, blockEnd;
  Value parity;          // of the row in the block, i64
  int64_t reduction = 0; // number in the row being emitted
};

} // namespace

//===----------------------------------------------------------------------===//
// Memory and small arithmetic
//===----------------------------------------------------------------------===//

/// Quotient and remainder of an i64 below `bound`; in 32 bits where they do,
/// which takes a fraction of the instructions.
std::pair<Value, Value> GpuGroupEmitter::divide(Value x, int64_t divisor,
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
SmallVector<Value> GpuGroupEmitter::leadingIndex(Value row) {
  if (analysis.domain().size() < 3)
    return {row};
  auto [token, head] = divide(row, analysis.domain()[1], analysis.rows());
  return {token, head};
}

Value GpuGroupEmitter::placeAddress(const Place &place, ArrayRef<Value> index,
                                    Value column) {
  Value total = constant(0);
  for (auto [dim, stride] : llvm::zip_equal(place.dims, place.strides))
    total = add(total, static_cast<size_t>(dim) < index.size()
                           ? times(index[dim], stride)
                           : column);
  return gpu.address(place.base, place.element, total);
}

Value GpuGroupEmitter::loadInput(unsigned input, ArrayRef<Value> index,
                                 Value column) {
  const Place &place = inputs[input];
  return gpu.load(placeAddress(place, index, column), place.element,
                  column ? geometry.width : 0);
}

Value GpuGroupEmitter::widen(Value stored) {
  Type element = getElementTypeOrSelf(stored);
  if (!element.isBF16())
    return stored;
  Type type = computeType(element);
  if (auto vector = dyn_cast<VectorType>(stored.getType()))
    type = vector.clone(type);
  return arith::ExtFOp::create(b, loc, type, stored);
}

Value GpuGroupEmitter::narrow(Value value, Type element) {
  if (!element.isBF16())
    return value;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    element = vector.clone(element);
  return arith::TruncFOp::create(b, loc, element, value);
}

void GpuGroupEmitter::when(Value condition,
                           llvm::function_ref<void()> emitThen) {
  if (!condition)
    return emitThen();
  auto branch = scf::IfOp::create(b, loc, condition, /*withElse=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  emitThen();
}

void GpuGroupEmitter::teamBarrier() {
  if (geometry.team > 32)
    gpu.blockBarrier();
  else
    gpu.warpBarrier();
}

/// Whether an input is the same for every row.
bool GpuGroupEmitter::isFixed(BlockArgument argument) const {
  ArrayRef<int64_t> dims = analysis.dims(argument);
  return dims.empty() ||
         (dims.size() == 1 && analysis.runsOverColumns(argument));
}

//===----------------------------------------------------------------------===//
// Values and results
//===----------------------------------------------------------------------===//

FailureOr<Value> GpuGroupEmitter::cellValue(Row &row, Cell &cell,
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
LogicalResult GpuGroupEmitter::storeOutputs(MutableArrayRef<Row> rows) {
  ValueRange results = body.getTerminator()->getOperands();
  for (Row &row : rows)
    for (Cell &cell : row.cells)
      for (Value value : results)
        if (analysis.runsOverColumns(value) &&
            !llvm::is_contained(columnSums, value.getDefiningOp()) &&
            failed(cellValue(row, cell, value)))
          return failure();
  for (Row &row : rows)
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
      for (Cell &cell : row.cells)
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

Row GpuGroupEmitter::flatRow(Value unit, int64_t total) {
  Row row;
  if (total % (geometry.threads * geometry.unitsPerThread) != 0) {
    // Threads behind the end read the last unit and store nothing.
    row.present = less(unit, constant(total));
    unit = select(row.present, unit, constant(total - 1));
  }
  auto [number, unitOfRow] = divide(unit, geometry.units, total);
  row.index = leadingIndex(number);
  Cell &cell = row.cells.emplace_back();
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

LogicalResult GpuGroupEmitter::emitFlat() {
  int64_t total = analysis.rows() * geometry.units;
  Value first = add(
      times(block, geometry.threads * geometry.unitsPerThread), thread);
  SmallVector<Row> rows;
  for (int64_t i = 0; i < geometry.unitsPerThread; ++i)
    rows.push_back(
        flatRow(add(first, constant(i * geometry.threads)), total));
  for (Row &row : rows) {
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
// Rows form: loads
//===----------------------------------------------------------------------===//

SmallVector<Cell> GpuGroupEmitter::createCells() {
  SmallVector<Cell> cells(geometry.unitsPerThread);
  for (auto [i, cell] : llvm::enumerate(cells)) {
    Value unit = add(lane, constant(i * geometry.team));
    if (static_cast<int64_t>(i + 1) * geometry.team > geometry.units) {
      // Threads behind the end read the first unit and store nothing.
      cell.present = less(unit, constant(geometry.units));
      unit = select(cell.present, unit, constant(0));
    }
    cell.column = times(unit, geometry.width);
    cell.raw.resize(inputs.size());
  }
  return cells;
}

/// Loads what is the same for all rows.
void GpuGroupEmitter::loadFixed(SmallVectorImpl<Cell> &cells) {
  for (BlockArgument argument : body.getArguments())
    if (isFixed(argument) && analysis.runsOverColumns(argument))
      for (Cell &cell : cells)
        cell.raw[argument.getArgNumber()] =
            loadInput(argument.getArgNumber(), {}, cell.column);
}

/// The row of this thread's team when the block's teams are at `base`.
Row GpuGroupEmitter::rowAt(Value base) {
  Row row;
  Value number = add(base, slot);
  if (analysis.rows() % geometry.slots != 0) {
    row.present = less(number, blockEnd);
    number = select(row.present, number, base);
  }
  row.index = leadingIndex(number);
  return row;
}

/// Everything of a row that memory has, as it is stored.
SmallVector<Value> GpuGroupEmitter::loadRow(Row &row) {
  SmallVector<Value> loaded;
  for (BlockArgument argument : body.getArguments()) {
    unsigned number = argument.getArgNumber();
    if (values.isRowInput(argument))
      loaded.push_back(loadInput(number, row.index, {}));
    else if (analysis.runsOverColumns(argument) && !isFixed(argument))
      for (Cell &cell : row.cells)
        loaded.push_back(loadInput(number, row.index, cell.column));
  }
  return loaded;
}

/// Gives the row what loadRow has loaded.
void GpuGroupEmitter::takeRow(Row &row, ValueRange loaded) {
  auto next = loaded.begin();
  for (BlockArgument argument : body.getArguments()) {
    if (values.isRowInput(argument))
      row.values[argument] = widen(*next++);
    else if (analysis.runsOverColumns(argument) && !isFixed(argument))
      for (Cell &cell : row.cells)
        cell.raw[argument.getArgNumber()] = *next++;
  }
}

//===----------------------------------------------------------------------===//
// Rows form: sums and rotations
//===----------------------------------------------------------------------===//

/// Adds the sums of a team's warps; every thread gets the same bits. The sums
/// of two sweeps lie in different places, where a row has one sweep with sums
/// those of two rows do: so one barrier is enough.
void GpuGroupEmitter::addWarps(MutableArrayRef<Value> sums) {
  Type f32 = b.getF32Type();
  int64_t warps = geometry.warpsOfTeam();
  int64_t area = maxSums * 32;
  Value begin = reductions > 1 ? constant(reduction * area)
                               : times(parity, area);
  ++reduction;
  auto [warp, laneOfWarp] = divide(lane, 32, geometry.threads);
  auto at = [&](int64_t number, Value index) {
    return gpu.address(shared, f32,
                       add(add(begin, constant(number * 32)), index));
  };
  Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                        laneOfWarp, constant(0));
  when(isFirst, [&] {
    for (auto [i, sum] : llvm::enumerate(sums))
      gpu.store(sum, at(i, warp), 0);
  });
  gpu.blockBarrier();
  int64_t lanes = llvm::PowerOf2Ceil(warps);
  Value source = arith::AndIOp::create(b, loc, laneOfWarp, constant(lanes - 1));
  for (auto [i, sum] : llvm::enumerate(sums)) {
    Value value = gpu.load(at(i, source), f32, 0);
    if (lanes != warps)
      value = select(less(source, constant(warps)), value,
                     splat(b, loc, f32, 0.0));
    sum = gpu.sumOfLanes(value, lanes);
  }
}

LogicalResult GpuGroupEmitter::emitRowSums(int sweep, Row &row) {
  SmallVector<ReduceSumOp> sums;
  SmallVector<Value> partial;
  for (auto sum : body.getOps<ReduceSumOp>()) {
    if (!isRowSum(sum, analysis) || analysis.sweep(sum.getY()) != sweep + 1)
      continue;
    Value total;
    for (Cell &cell : row.cells) {
      auto x = cellValue(row, cell, sum.getX());
      if (failed(x))
        return failure();
      Value counted =
          select(cell.present, *x, splat(b, loc, x->getType(), 0.0));
      total = total ? Value(arith::AddFOp::create(b, loc, total, counted))
                    : counted;
    }
    sums.push_back(sum);
    partial.push_back(gpu.sumOfLanes(horizontalSum(b, loc, total),
                                     std::min<int64_t>(32, geometry.team)));
  }
  if (sums.empty())
    return success();
  if (geometry.team > 32)
    addWarps(partial);
  for (auto [sum, total] : llvm::zip_equal(sums, partial))
    row.values[sum.getY()] = total;
  return success();
}

/// One unit of a rotated row, whose partner's values the team has left in
/// shared memory: pairs j and j + half for j < half.
Value GpuGroupEmitter::rotated(RopeOp rope, Row &row, Cell &cell, Value x) {
  unsigned input = cast<BlockArgument>(rope.getAngles()).getArgNumber();
  int64_t half =
      cast<RankedTensorType>(rope.getAngles().getType()).getDimSize(1) / 2;
  Type element = getElementTypeOrSelf(x);
  Value isLow = less(cell.column, constant(half));
  Value j = select(isLow, cell.column,
                   arith::SubIOp::create(b, loc, cell.column, constant(half)));
  Value low = j, high = add(j, constant(half));
  Value row0 = times(slot, 2 * half);
  Value partner = gpu.load(
      gpu.address(sharedAt(sharedRotation), element,
                  add(row0, select(isLow, high, low))),
      element, geometry.width);
  const Place &place = inputs[input];
  auto angle = [&](Value column) {
    Value index = add(times(row.index[0], place.strides[0]), column);
    return widen(gpu.load(gpu.address(place.base, place.element, index),
                          place.element, geometry.width));
  };
  Value cosine = angle(low), sine = angle(high);
  // low: x cos - y sin; high: y cos + x sin; the inverse has the other sign.
  Value negative = arith::NegFOp::create(b, loc, sine);
  sine = rope.getInverse() ? select(isLow, sine, negative)
                           : select(isLow, negative, sine);
  return arith::AddFOp::create(b, loc,
                               arith::MulFOp::create(b, loc, x, cosine),
                               arith::MulFOp::create(b, loc, partner, sine));
}

LogicalResult GpuGroupEmitter::emitRotation(RopeOp rope, Row &row) {
  int64_t rotatedColumns =
      cast<RankedTensorType>(rope.getAngles().getType()).getDimSize(1);
  SmallVector<std::pair<Cell *, Value>> taking; // with the condition
  for (auto [i, cell] : llvm::enumerate(row.cells)) {
    auto x = cellValue(row, cell, rope.getX());
    if (failed(x))
      return failure();
    cell.memo[rope.getY()] = *x;
    // Units of later cells lie behind those of earlier ones.
    int64_t begin = i * geometry.team * geometry.width;
    if (begin >= rotatedColumns)
      continue;
    Value inside = cell.present;
    if (begin + geometry.team * geometry.width > rotatedColumns)
      inside = both(inside, less(cell.column, constant(rotatedColumns)));
    taking.push_back({&cell, inside});
    when(inside, [&] {
      Value at = add(times(slot, rotatedColumns), cell.column);
      gpu.store(*x, gpu.address(sharedAt(sharedRotation),
                                getElementTypeOrSelf(*x), at),
                geometry.width);
    });
  }
  teamBarrier();
  for (auto [cell, inside] : taking) {
    Value x = cell->memo[rope.getY()];
    if (!inside) {
      cell->memo[rope.getY()] = rotated(rope, row, *cell, x);
      continue;
    }
    auto branch = scf::IfOp::create(b, loc, x.getType(), inside,
                                    /*withElse=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&branch.getThenRegion().front());
    scf::YieldOp::create(b, loc, rotated(rope, row, *cell, x));
    b.setInsertionPointToStart(&branch.getElseRegion().front());
    scf::YieldOp::create(b, loc, x);
    cell->memo[rope.getY()] = branch.getResult(0);
  }
  // The next rotation writes where this one reads.
  teamBarrier();
  return success();
}

//===----------------------------------------------------------------------===//
// Rows form: column sums
//===----------------------------------------------------------------------===//

/// `totals` has a vector for each column sum and cell of the thread.
LogicalResult
GpuGroupEmitter::addToColumnTotals(Row &row, SmallVectorImpl<Value> &totals) {
  auto total = totals.begin();
  for (ReduceSumOp sum : columnSums)
    for (Cell &cell : row.cells) {
      auto x = cellValue(row, cell, sum.getX());
      if (failed(x))
        return failure();
      Value counted = select(both(row.present, cell.present), *x,
                             splat(b, loc, x->getType(), 0.0));
      *total = arith::AddFOp::create(b, loc, *total, counted);
      ++total;
    }
  return success();
}

/// Adds the sums that the block's teams have left in shared memory, in order.
void GpuGroupEmitter::addSlots(Value partialSums, Type element) {
  int64_t columns = analysis.columns();
  for (int64_t first = 0; first < geometry.units; first += geometry.threads) {
    Value unit = add(thread, constant(first));
    Value inside;
    if (first + geometry.threads > geometry.units)
      inside = less(unit, constant(geometry.units));
    when(inside, [&] {
      Value column = times(unit, geometry.width);
      Value total;
      for (int64_t i = 0; i < geometry.slots; ++i) {
        Value at = add(column, constant(i * columns));
        Value x = gpu.load(gpu.address(sharedAt(sharedColumns), element, at),
                           element, geometry.width);
        total = total ? Value(arith::AddFOp::create(b, loc, total, x)) : x;
      }
      gpu.store(total, gpu.address(partialSums, element, column),
                geometry.width);
    });
  }
}

/// Leaves the block's column sums in its part of the workspace.
void GpuGroupEmitter::storeColumnTotals(ArrayRef<Cell> cells,
                                        ValueRange totals) {
  int64_t offset = 0;
  for (auto [i, sum] : llvm::enumerate(columnSums)) {
    Type element = getElementTypeOrSelf(sum.getY());
    Value sums = gpu.address(partials, b.getI8Type(), constant(offset));
    offset += analysis.columns() * element.getIntOrFloatBitWidth() / 8;
    if (geometry.slots > 1 && i > 0)
      gpu.blockBarrier();
    for (auto [k, cell] : llvm::enumerate(cells)) {
      Value total = totals[i * cells.size() + k];
      Value column = cell.column;
      when(cell.present, [&] {
        if (geometry.slots == 1)
          return gpu.store(total, gpu.address(sums, element, column),
                           geometry.width);
        Value at = add(times(slot, analysis.columns()), column);
        gpu.store(total, gpu.address(sharedAt(sharedColumns), element, at),
                  geometry.width);
      });
    }
    if (geometry.slots == 1)
      continue;
    gpu.blockBarrier();
    addSlots(sums, element);
  }
}

//===----------------------------------------------------------------------===//
// Rows form
//===----------------------------------------------------------------------===//

LogicalResult GpuGroupEmitter::emitRow(Row &row,
                                       SmallVectorImpl<Value> &totals) {
  int sweeps = analysis.sweepCount();
  reduction = 0;
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    if (failed(values.emitRowValues(sweep, row.values)) ||
        failed(emitRowSums(sweep, row)))
      return failure();
    for (auto rope : body.getOps<RopeOp>())
      if (analysis.sweep(rope.getY()) == sweep + 1 &&
          failed(emitRotation(rope, row)))
        return failure();
  }
  if (failed(values.emitRowValues(sweeps, row.values)) ||
      failed(addToColumnTotals(row, totals)))
    return failure();
  // A row output may lie in the buffer of a row input, which every thread of
  // the team reads; sums have waited for all.
  if (reductions == 0)
    teamBarrier();
  return storeOutputs(row);
}

/// Rows of the block one after the other; the loads of the next one are on
/// their way while one is worked at.
LogicalResult GpuGroupEmitter::emitRows() {
  auto [slotNumber, laneNumber] =
      divide(thread, geometry.team, geometry.threads);
  slot = geometry.slots == 1 ? constant(0) : slotNumber;
  lane = geometry.slots == 1 ? thread : laneNumber;
  blockBegin = times(block, geometry.rowsPerBlock);
  blockEnd = arith::MinUIOp::create(
      b, loc, add(blockBegin, constant(geometry.rowsPerBlock)),
      constant(analysis.rows()));
  SmallVector<Cell> cells = createCells();
  loadFixed(cells);
  Row first = rowAt(blockBegin);
  first.cells = cells;
  SmallVector<Value> carried = loadRow(first);
  size_t loads = carried.size();
  for (ReduceSumOp sum : columnSums)
    carried.append(cells.size(),
                   splat(b, loc,
                         VectorType::get({geometry.width},
                                         getElementTypeOrSelf(sum.getY())),
                         0.0));
  Value step = constant(geometry.slots);
  auto loop = scf::ForOp::create(b, loc, blockBegin, blockEnd, step, carried);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value base = loop.getInductionVar();
    Value next = add(base, step);
    next = select(less(next, blockEnd), next, base);
    Row ahead = rowAt(next), row = rowAt(base);
    ahead.cells = row.cells = cells;
    SmallVector<Value> yielded = loadRow(ahead);
    ValueRange arguments = loop.getRegionIterArgs();
    takeRow(row, arguments.take_front(loads));
    parity = arith::AndIOp::create(
        b, loc, arith::SubIOp::create(b, loc, base, blockBegin), constant(1));
    SmallVector<Value> totals(arguments.drop_front(loads));
    if (failed(emitRow(row, totals)))
      return failure();
    llvm::append_range(yielded, totals);
    // Without results the builder has made the terminator already.
    if (!yielded.empty())
      scf::YieldOp::create(b, loc, yielded);
  }
  storeColumnTotals(cells, loop.getResults().drop_front(loads));
  return success();
}

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

void GpuGroupEmitter::inspect() {
  for (int64_t output : group.getColumnSums())
    columnSums.push_back(body.getTerminator()
                             ->getOperand(output)
                             .getDefiningOp<ReduceSumOp>());
  llvm::DenseMap<int, int64_t> sumsOfSweep;
  for (auto sum : body.getOps<ReduceSumOp>())
    if (isRowSum(sum, analysis))
      ++sumsOfSweep[analysis.sweep(sum.getY())];
  reductions = sumsOfSweep.size();
  for (auto [sweep, sums] : sumsOfSweep)
    maxSums = std::max(maxSums, sums);
}

/// Places the block's shared memory; returns its bytes.
int64_t GpuGroupEmitter::layoutShared() {
  int64_t bytes = 0;
  if (geometry.team > 32)
    bytes = std::max<int64_t>(2, reductions) * maxSums * 32 * 4;
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

Value GpuGroupEmitter::sharedAt(int64_t offset) {
  return gpu.address(shared, b.getI8Type(), constant(offset));
}

/// The kernel takes the operands' addresses, then that of the partial sums.
LLVM::LLVMFuncOp GpuGroupEmitter::createKernel(int64_t sharedBytes) {
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
    kernel->setAttr("nvvm.minctasm",
                    b.getI32IntegerAttr(
                        static_cast<int32_t>(geometry.residentBlocks)));
  if (sharedBytes) {
    auto type = LLVM::LLVMArrayType::get(b.getI8Type(), sharedBytes);
    std::string name = (group.getSymName() + "_shared").str();
    LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/false,
                           LLVM::Linkage::Internal, name, Attribute(),
                           /*alignment=*/16, /*addrSpace=*/3);
  }
  return kernel;
}

void GpuGroupEmitter::createPlaces(Block &entry) {
  unsigned index = 0;
  auto create = [&](Value value, Type type) {
    auto memref = cast<MemRefType>(type);
    auto [strides, offset] = memref.getStridesAndOffset();
    return Place{entry.getArgument(index++), memref.getElementType(), strides,
                 SmallVector<int64_t>(analysis.dims(value))};
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
SmallVector<int64_t> GpuGroupEmitter::requiredAlignments() {
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

LogicalResult GpuGroupEmitter::emit() {
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
      failed(GpuGroupEmitter(builder, group, *analysis, *geometry)
                 .emit()))
    return failure();
  return geometry->rowsPerBlock;
}
