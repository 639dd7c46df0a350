//===- TuneStep.cpp - The products of a step by several tables ------------===//

#include "TuneStep.h"

#include "runtime/support/Print.h"

#include <cstdio>
#include <fmt/ranges.h>

using namespace qwen;
using namespace qwen::bench;
using cuda::GemmShape;
using cuda::Product;

/// Times that a table's products run through in a stretch, of which the last
/// two count, and stretches of each table.
static constexpr int runsOfStretch = 3, rounds = 2;

/// The products on the first set of operands, ready to run.
static StatusOr<std::vector<Product>>
prepareProducts(cuda::Blas &blas, const ProductMemory &memory,
                const std::vector<GemmShape> &shapes,
                const cuda::TuningTable &table) {
  std::vector<Product> products;
  for (const GemmShape &shape : shapes) {
    auto tuned = table.find(shape);
    products.push_back(productOf(
        memory, shape,
        tuned == table.end() ? GemmAlgorithm() : tuned->second.algorithm));
    QWEN_RETURN_IF_ERROR(blas.prepare(products.back()));
  }
  return products;
}

Status bench::compareTables(cuda::Blas &blas, const ProductMemory &memory,
                            SteadyLoad &load,
                            const std::vector<GemmShape> &shapes,
                            const std::vector<NamedTable> &tables) {
  std::vector<std::vector<Product>> products;
  for (const NamedTable &table : tables) {
    QWEN_ASSIGN_OR_RETURN(std::vector<Product> prepared,
                          prepareProducts(blas, memory, shapes, table.table));
    products.push_back(std::move(prepared));
  }
  std::vector<std::vector<Stretch>> stretches(tables.size());
  for (size_t i = 0; i < rounds * tables.size(); ++i) {
    // There and back, so that a card that still warms up favours none.
    bool back = i / tables.size() % 2 == 1;
    size_t at =
        back ? tables.size() - 1 - i % tables.size() : i % tables.size();
    QWEN_ASSIGN_OR_RETURN(Stretch taken, load.run(runsOfStretch, [&](int) {
      for (const Product &product : products[at])
        QWEN_RETURN_IF_ERROR(cudaStatus(
            blas.run(product, memory.workspace.bytes(), nullptr), "product"));
      return okStatus();
    }));
    stretches[at].push_back(taken);
  }
  for (size_t i = 0; i < tables.size(); ++i) {
    std::vector<double> ms, watts;
    for (const Stretch &taken : stretches[i]) {
      ms.push_back(taken.milliseconds);
      watts.push_back(load.watts(taken).value_or(0));
    }
    qwen::print(stdout,
                "{{\"bench\": \"tune_step\", \"algorithms\": \"{}\", "
                "\"products\": {}, \"ms\": [{:.3f}], \"watts\": [{:.1f}]}}\n",
                tables[i].name, shapes.size(), fmt::join(ms, ", "),
                fmt::join(watts, ", "));
  }
  std::fflush(stdout);
  return okStatus();
}
