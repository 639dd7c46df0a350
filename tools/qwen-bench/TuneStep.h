//===- TuneStep.h - The products of a step by several tables ---*- C++ -*-===//
//
// All products of a program in their order, again and again, by one table after
// the other: whether a table is a gain where products follow each other and
// share the card's power.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TOOLS_QWEN_BENCH_TUNESTEP_H
#define QWEN_TOOLS_QWEN_BENCH_TUNESTEP_H

#include "TuneProduct.h"

#include <string>

namespace qwen::bench {

/// Algorithms of products; those it does not have run by the library's first
/// choice.
struct NamedTable {
  std::string name;
  cuda::TuningTable table;
};

/// Prints a line of JSON a table: milliseconds and watts of the products.
Status compareTables(cuda::Blas &blas, const ProductMemory &memory,
                     SteadyLoad &load,
                     const std::vector<cuda::GemmShape> &products,
                     const std::vector<NamedTable> &tables);

} // namespace qwen::bench

#endif // QWEN_TOOLS_QWEN_BENCH_TUNESTEP_H
