//===- GpuGroupRows.cpp - Kernels whose teams of threads have rows --------===//

#include "GpuGroupCode.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace qwen;

//===----------------------------------------------------------------------===//
// Rows form: loads
//===----------------------------------------------------------------------===//

SmallVector<GpuCell> GpuGroupCode::createCells() {
  SmallVector<GpuCell> cells(geometry.unitsPerThread);
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

/// What the first sums and rotations of a row wait for is loaded a row ahead;
/// the rest has their time. What is the same for all rows stays in registers
/// where it is one unit; more would cost more than the first-level cache does.
LoadTime GpuGroupCode::loadTime(BlockArgument argument) const {
  if (isFixed(argument))
    return geometry.unitsPerThread == 1 ? LoadTime::Once : LoadTime::WithRow;
  return firstNeeds.empty() || firstNeeds.contains(argument)
             ? LoadTime::Ahead
             : LoadTime::WithRow;
}

/// Loads the inputs whose time has come.
void GpuGroupCode::loadCells(LoadTime time, ArrayRef<Value> index,
                             MutableArrayRef<GpuCell> cells) {
  for (BlockArgument argument : body.getArguments())
    if (analysis.runsOverColumns(argument) && loadTime(argument) == time)
      for (GpuCell &cell : cells)
        cell.raw[argument.getArgNumber()] =
            loadInput(argument.getArgNumber(), index, cell.column);
}

/// The row of this thread's team when the block's teams are at `base`.
GpuRow GpuGroupCode::rowAt(Value base) {
  GpuRow row;
  Value number = add(base, slot);
  if (analysis.rows() % geometry.slots != 0) {
    row.present = less(number, blockEnd);
    number = select(row.present, number, base);
  }
  row.index = leadingIndex(number);
  return row;
}

/// What is loaded a row ahead, as it is stored.
SmallVector<Value> GpuGroupCode::loadAhead(GpuRow &row) {
  loadCells(LoadTime::Ahead, row.index, row.cells);
  SmallVector<Value> loaded;
  for (BlockArgument argument : body.getArguments()) {
    unsigned number = argument.getArgNumber();
    if (values.isRowInput(argument))
      loaded.push_back(loadInput(number, row.index, {}));
    else if (analysis.runsOverColumns(argument) &&
             loadTime(argument) == LoadTime::Ahead)
      for (GpuCell &cell : row.cells)
        loaded.push_back(cell.raw[number]);
  }
  return loaded;
}

/// Gives the row what loadAhead has loaded.
void GpuGroupCode::takeRow(GpuRow &row, ValueRange loaded) {
  auto next = loaded.begin();
  for (BlockArgument argument : body.getArguments()) {
    if (values.isRowInput(argument))
      row.values[argument] = widen(*next++);
    else if (analysis.runsOverColumns(argument) &&
             loadTime(argument) == LoadTime::Ahead)
      for (GpuCell &cell : row.cells)
        cell.raw[argument.getArgNumber()] = *next++;
  }
}

//===----------------------------------------------------------------------===//
// Rows form: sums and rotations
//===----------------------------------------------------------------------===//

/// Adds the sums of a team's warps; every thread gets the same bits. The sums
/// of two sweeps lie in different places, where a row has one sweep with sums
/// those of two rows do: so one barrier is enough.
void GpuGroupCode::addWarps(MutableArrayRef<Value> sums) {
  Type f32 = b.getF32Type();
  int64_t warps = geometry.warpsOfTeam();
  int64_t area = maxSums * 32;
  Value begin =
      reductions > 1 ? constant(reduction * area) : times(parity, area);
  begin = add(begin, times(slot, std::max<int64_t>(2, reductions) * area));
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
  teamBarrier();
  int64_t lanes = llvm::PowerOf2Ceil(warps);
  Value source = arith::AndIOp::create(b, loc, laneOfWarp, constant(lanes - 1));
  for (auto [i, sum] : llvm::enumerate(sums)) {
    Value value = gpu.load(at(i, source), f32, 0);
    if (lanes != warps)
      value =
          select(less(source, constant(warps)), value, splat(b, loc, f32, 0.0));
    sum = gpu.sumOfLanes(value, lanes);
  }
}

LogicalResult GpuGroupCode::emitRowSums(int sweep, GpuRow &row) {
  SmallVector<ReduceSumOp> sums;
  SmallVector<Value> partial;
  for (auto sum : body.getOps<ReduceSumOp>()) {
    if (!isRowSum(sum, analysis) || analysis.sweep(sum.getY()) != sweep + 1)
      continue;
    Value total;
    for (GpuCell &cell : row.cells) {
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
Value GpuGroupCode::rotated(RopeOp rope, GpuRow &row, GpuCell &cell, Value x) {
  unsigned input = cast<BlockArgument>(rope.getAngles()).getArgNumber();
  int64_t half =
      cast<RankedTensorType>(rope.getAngles().getType()).getDimSize(1) / 2;
  Type element = getElementTypeOrSelf(x);
  Value isLow = less(cell.column, constant(half));
  Value j = select(isLow, cell.column,
                   arith::SubIOp::create(b, loc, cell.column, constant(half)));
  Value low = j, high = add(j, constant(half));
  Value row0 = times(slot, 2 * half);
  Value partner = gpu.load(gpu.address(sharedAt(sharedRotation), element,
                                       add(row0, select(isLow, high, low))),
                           element, geometry.width);
  const GpuPlace &place = inputs[input];
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
  return arith::AddFOp::create(b, loc, arith::MulFOp::create(b, loc, x, cosine),
                               arith::MulFOp::create(b, loc, partner, sine));
}

LogicalResult GpuGroupCode::emitRotation(RopeOp rope, GpuRow &row) {
  int64_t rotatedColumns =
      cast<RankedTensorType>(rope.getAngles().getType()).getDimSize(1);
  SmallVector<std::pair<GpuCell *, Value>> taking; // with the condition
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
      gpu.store(
          *x,
          gpu.address(sharedAt(sharedRotation), getElementTypeOrSelf(*x), at),
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
LogicalResult GpuGroupCode::addToColumnTotals(GpuRow &row,
                                              SmallVectorImpl<Value> &totals) {
  auto total = totals.begin();
  for (ReduceSumOp sum : columnSums)
    for (GpuCell &cell : row.cells) {
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
void GpuGroupCode::addSlots(Value partialSums, Type element) {
  int64_t columns = analysis.columns();
  for (int64_t first = 0; first < columns; first += geometry.threads) {
    Value column = add(thread, constant(first));
    Value inside;
    if (first + geometry.threads > columns)
      inside = less(column, constant(columns));
    when(inside, [&] {
      Value total;
      for (int64_t i = 0; i < geometry.slots; ++i) {
        Value at = add(column, constant(i * columns));
        Value x = gpu.load(gpu.address(sharedAt(sharedColumns), element, at),
                           element, 0);
        total = total ? Value(arith::AddFOp::create(b, loc, total, x)) : x;
      }
      gpu.store(total, gpu.address(partialSums, element, column), 0);
    });
  }
}

/// Leaves the block's column sums in its part of the workspace.
void GpuGroupCode::storeColumnTotals(ArrayRef<GpuCell> cells,
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

LogicalResult GpuGroupCode::emitRow(GpuRow &row,
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
LogicalResult GpuGroupCode::emitRows() {
  auto [slotNumber, laneNumber] =
      divide(thread, geometry.team, geometry.threads);
  slot = geometry.slots == 1 ? constant(0) : slotNumber;
  lane = geometry.slots == 1 ? thread : laneNumber;
  blockBegin = times(block, geometry.rowsPerBlock);
  blockEnd = arith::MinUIOp::create(
      b, loc, add(blockBegin, constant(geometry.rowsPerBlock)),
      constant(analysis.rows()));
  SmallVector<GpuCell> cells = createCells();
  loadCells(LoadTime::Once, {}, cells);
  GpuRow first = rowAt(blockBegin);
  first.cells = cells;
  SmallVector<Value> carried = loadAhead(first);
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
    GpuRow ahead = rowAt(next), row = rowAt(base);
    ahead.cells = row.cells = cells;
    loadCells(LoadTime::WithRow, row.index, row.cells);
    SmallVector<Value> yielded = loadAhead(ahead);
    ValueRange arguments = loop.getRegionIterArgs();
    takeRow(row, arguments.take_front(loads));
    Value begun = arith::SubIOp::create(b, loc, base, blockBegin);
    parity = arith::AndIOp::create(
        b, loc, divide(begun, geometry.slots, analysis.rows()).first,
        constant(1));
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
