//===- GpuGeometry.cpp - Threads of a group on a GPU ----------------------===//

#include "GpuGeometry.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace qwen;

namespace {

/// Multiprocessors of an H100 or H200. A constant of the target: geometry never
/// follows the device at hand.
constexpr int64_t processors = 132;
constexpr int64_t warpSize = 32, maxThreads = 1024;
/// Threads of a block whose teams are at most a warp, and of flat groups.
constexpr int64_t blockThreads = 256;
/// Elements of a row that a thread may hold of each operand.
constexpr int64_t maxHeldElements = 64;
/// Shared memory for the column sums of a block's teams: leaves room for row
/// sums below the static limit.
constexpr int64_t maxSumBytes = 40 * 1024;
/// Threads of a block with column sums: few blocks leave few partial sums.
constexpr int64_t maxSumThreads = 640;
/// Barriers that a block needs beside its own, which number 1 to 15.
constexpr int64_t maxTeamBarriers = 8;

class Chooser {
public:
  Chooser(kernel::GroupFunctionOp group, const GroupAnalysis &analysis,
          ArrayRef<int64_t> alignments)
      : group(group), analysis(analysis), alignments(alignments),
        body(group.getBody().front()) {}

  FailureOr<GpuGeometry> run();

private:
  void inspect();
  void chooseWidth();
  void chooseFlat();
  LogicalResult chooseRows();
  LogicalResult chooseTeam();
  int64_t residentThreads() const;

  kernel::GroupFunctionOp group;
  const GroupAnalysis &analysis;
  ArrayRef<int64_t> alignments;
  Block &body;
  GpuGeometry geometry;
  int64_t streams = 0; ///< inputs that are another row for every row
  int64_t columnSums = 0;
  bool needsTeams = false;
};

/// Memory types of a list of operands.
SmallVector<MemRefType> memoryTypes(ArrayAttr list) {
  return llvm::map_to_vector(list.getAsValueRange<TypeAttr>(),
                             [](Type type) { return cast<MemRefType>(type); });
}

void Chooser::inspect() {
  columnSums = group.getColumnSums().size();
  for (BlockArgument argument : body.getArguments())
    streams += analysis.runsOverColumns(argument) &&
               analysis.dims(argument).size() > 1;
  needsTeams = columnSums > 0 || !body.getOps<RopeOp>().empty();
  for (auto sum : body.getOps<ReduceSumOp>())
    needsTeams |= isRowSum(sum, analysis);
  // Row outputs are written once a row, after all threads of it have read.
  for (Value value : body.getTerminator()->getOperands())
    needsTeams |=
        analysis.domain().size() > 1 && !analysis.runsOverColumns(value);
}

/// The widest unit that divides rows, halves of rotations, and for which every
/// row of every operand starts at a multiple of its first 16 bytes.
void Chooser::chooseWidth() {
  int64_t columns = analysis.columns(), width = 8;
  auto narrowTo = [&](int64_t divisor) {
    while (divisor % width != 0)
      width /= 2;
  };
  narrowTo(columns);
  size_t operand = 0;
  auto narrow = [&](Value value, MemRefType type) {
    int64_t alignment = alignments[operand++];
    bool isAngles = llvm::any_of(value.getUsers(), [&](Operation *user) {
      auto rope = dyn_cast<RopeOp>(user);
      return rope && rope.getAngles() == value;
    });
    if (!analysis.runsOverColumns(value) && !isAngles)
      return;
    int64_t bytes = type.getElementTypeBitWidth() / 8;
    auto [strides, offset] = type.getStridesAndOffset();
    for (int64_t stride : ArrayRef(strides).drop_back())
      alignment = std::gcd(alignment, stride * bytes);
    while (width > 1 && alignment % std::min<int64_t>(16, width * bytes) != 0)
      width /= 2;
  };
  for (auto [argument, type] :
       llvm::zip_equal(body.getArguments(), memoryTypes(group.getInputTypes())))
    narrow(argument, type);
  for (auto [value, type] :
       llvm::zip_equal(body.getTerminator()->getOperands(),
                       memoryTypes(group.getOutputTypes())))
    narrow(value, type);
  for (auto rope : body.getOps<RopeOp>())
    narrowTo(cast<RankedTensorType>(rope.getAngles().getType()).getDimSize(1) /
             2);
  geometry.width = width;
  geometry.units = columns / width;
}

void Chooser::chooseFlat() {
  geometry.flat = true;
  geometry.unitsPerThread = streams <= 1 ? 4 : 2;
  geometry.threads = blockThreads;
  int64_t units = analysis.rows() * geometry.units;
  // Small spaces rather fill the processors.
  while (geometry.unitsPerThread > 1 &&
         units < processors * 4 * blockThreads * geometry.unitsPerThread)
    geometry.unitsPerThread /= 2;
  geometry.blocks =
      llvm::divideCeil(units, blockThreads * geometry.unitsPerThread);
}

/// The smallest team whose threads hold few enough units of each operand.
LogicalResult Chooser::chooseTeam() {
  int64_t units = geometry.units;
  if (units <= warpSize) {
    geometry.team = llvm::PowerOf2Ceil(units);
    geometry.unitsPerThread = 1;
    return success();
  }
  int64_t held = maxHeldElements / geometry.width;
  int64_t most = std::min<int64_t>(held, 2);
  while (most < held && most * maxThreads < units)
    most *= 2;
  // Of those that hold few units the one with the fewest empty places.
  geometry.team = 0;
  for (int64_t team = warpSize; team <= maxThreads; team += warpSize) {
    int64_t each = llvm::divideCeil(units, team);
    if (each > most || (geometry.team > 0 &&
                        team * each >= geometry.team * geometry.unitsPerThread))
      continue;
    geometry.team = team;
    geometry.unitsPerThread = each;
  }
  if (geometry.team > 0)
    return success();
  return group.emitOpError("has rows of ")
         << analysis.columns() << " columns, more than the "
         << held * geometry.width * maxThreads << " that a GPU block can hold";
}

/// Threads that a multiprocessor should hold: as many as leave each the
/// registers for its values (65,536 are there), measured on an H200.
int64_t Chooser::residentThreads() const {
  if (geometry.team > warpSize)
    return columnSums > 0 || streams > 2 ? 704 : 1024;
  if (streams > 2)
    return 768;
  return columnSums > 0 || streams > 1 ? 1024 : 1280;
}

LogicalResult Chooser::chooseRows() {
  if (failed(chooseTeam()))
    return failure();
  int64_t rows = analysis.rows();
  bool warps = geometry.team > warpSize;
  int64_t wanted = columnSums > 0 && warps ? maxSumThreads : blockThreads;
  geometry.slots =
      std::max<int64_t>(1, llvm::bit_floor(uint64_t(wanted / geometry.team)));
  if (warps)
    geometry.slots =
        columnSums > 0 ? std::min(geometry.slots, maxTeamBarriers) : 1;
  // Whole warps, or the lanes behind the last team would be in none.
  int64_t least = std::max<int64_t>(1, warpSize / geometry.team);
  auto halve = [&] { return geometry.slots / 2 >= least; };
  while (columnSums > 0 && halve() &&
         geometry.slots * analysis.columns() * 4 > maxSumBytes)
    geometry.slots /= 2;
  while (halve() && geometry.slots / 2 * processors >= rows)
    geometry.slots /= 2;
  geometry.threads = geometry.slots * geometry.team;
  int64_t resident = residentThreads();
  geometry.residentBlocks =
      std::clamp<int64_t>(resident / geometry.threads, 1, 16);
  int64_t blocks = processors * geometry.residentBlocks;
  geometry.rowsPerBlock = llvm::alignTo(
      std::max<int64_t>(1, llvm::divideCeil(rows, blocks)), geometry.slots);
  geometry.blocks = llvm::divideCeil(rows, geometry.rowsPerBlock);
  return success();
}

FailureOr<GpuGeometry> Chooser::run() {
  inspect();
  chooseWidth();
  if (!needsTeams)
    chooseFlat();
  else if (failed(chooseRows()))
    return failure();
  return geometry;
}

} // namespace

FailureOr<GpuGeometry> qwen::chooseGeometry(kernel::GroupFunctionOp group,
                                            const GroupAnalysis &analysis,
                                            ArrayRef<int64_t> alignments) {
  return Chooser(group, analysis, alignments).run();
}
