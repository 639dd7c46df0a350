//===- Case.h - Random models, documents and packs -------------*- C++ -*-===//
//
// A case is a function of a seed and a number. Each part of it is drawn from a
// sequence of its own, so that a part can be left out and the others stay.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_PROPERTIES_CASE_H
#define QWEN_TEST_PROPERTIES_CASE_H

#include "test/e2e/Harness.h"
#include "test/e2e/Packs.h"

#include <optional>
#include <string>
#include <vector>

namespace qwen::property {

/// Which case, and what of it: a command line prints and reads it.
struct CaseName {
  uint32_t seed = 1;
  uint32_t number = 0;
  /// Layers and documents that are kept, by their number in the whole case;
  /// none: all.
  std::optional<std::vector<size_t>> layers, documents;
};

/// Part of a case with a sequence of random numbers of its own.
enum class Part : uint32_t { Model, Plan, Documents, Packs, Law };

/// The sequence of a part; `index` tells parts of one kind apart.
e2e::Generator generatorOf(const CaseName &name, Part part, uint32_t index = 0);

/// A number in [least, most].
int32_t between(e2e::Generator &generator, int32_t least, int32_t most);
/// True in `percent` of a hundred.
bool chance(e2e::Generator &generator, int32_t percent);

/// Which documents, by index, are in which micro-batch, in their order.
using Split = std::vector<std::vector<size_t>>;

/// A model, its documents and how they are packed.
struct Case {
  CaseName name;
  /// Of the reference: no recomputation, one rank, no fusion where targets
  /// promise the same bits with and without.
  e2e::PlanSpec spec;
  /// Rows of queries in the first projection of a gated delta layer.
  int64_t keyRows = 0;
  std::vector<e2e::TestDocument> documents;
  Split split;
  /// Layers and documents before any were left out.
  size_t layers = 0, wholeDocuments = 0;
  /// For people.
  std::string modelText, packsText;
};

/// Draws a case for the target of the test program.
Case drawCase(const CaseName &name);

/// Order of the documents, cut at random and where a pack of `spec` is full.
Split drawSplit(e2e::Generator &generator,
                const std::vector<e2e::TestDocument> &documents,
                const std::vector<size_t> &order, const e2e::PlanSpec &spec);
std::vector<size_t> drawOrder(e2e::Generator &generator, size_t count);
/// Draws the size of a pack: documents fit, and make about a dozen packs at
/// most.
void drawPackSize(e2e::Generator &generator,
                  const std::vector<e2e::TestDocument> &documents,
                  e2e::PlanSpec &spec);

/// "recompute cheap, fusion off, packs of 129 tokens and 7 documents, ...".
std::string describePlan(const e2e::PlanSpec &spec);

} // namespace qwen::property

#endif // QWEN_TEST_PROPERTIES_CASE_H
