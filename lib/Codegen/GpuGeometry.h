//===- GpuGeometry.h - Threads of a group on a GPU -------------*- C++ -*-===//
//
// How the iteration space of a group is spread over threads and blocks. Depends
// on the shape and on alignment alone, so that results do too.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_CODEGEN_GPUGEOMETRY_H
#define QWEN_LIB_CODEGEN_GPUGEOMETRY_H

#include "GroupAnalysis.h"

namespace qwen {

/// A unit is what a thread loads at once of each operand: `width` columns of a
/// row, 16 bytes of bf16 where length and alignment of the rows allow it.
struct GpuGeometry {
  /// Flat: no value needs a whole row, every thread takes `unitsPerThread`
  /// units of the whole space, `threads` units apart, and ends.
  /// Rows: a team of threads has a row at a time, each thread `unitsPerThread`
  /// units of it, `team` apart; a block has `slots` teams and `rowsPerBlock`
  /// consecutive rows, which the teams take in turn.
  bool flat = false;
  int64_t width = 1;
  int64_t units = 1; ///< of a row
  int64_t unitsPerThread = 1;
  int64_t team = 1;
  int64_t slots = 1;
  int64_t threads = 1; ///< of a block
  int64_t blocks = 1;
  int64_t rowsPerBlock = 1;
  /// Blocks that a multiprocessor should hold at once: limits registers.
  int64_t residentBlocks = 1;

  int64_t warpsOfTeam() const { return team <= 32 ? 1 : team / 32; }
};

/// Most static shared memory that a kernel may declare.
inline constexpr int64_t maxStaticSharedBytes = 48 * 1024;

/// `alignments` has the bytes that each operand's address is a multiple of.
/// Fails with an emitted error where a row is too long.
mlir::FailureOr<GpuGeometry> chooseGeometry(kernel::GroupFunctionOp group,
                                            const GroupAnalysis &analysis,
                                            llvm::ArrayRef<int64_t> alignments);

} // namespace qwen

#endif // QWEN_LIB_CODEGEN_GPUGEOMETRY_H
