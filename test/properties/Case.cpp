//===- Case.cpp - Random models, documents and packs ----------------------===//

#include "Case.h"

#include "ModelShape.h"

#include <algorithm>
#include <numeric>

using namespace qwen;
using namespace qwen::property;
using e2e::Generator;
using e2e::PlanSpec;
using e2e::TestDocument;

Generator qwen::property::generatorOf(const CaseName &name, Part part,
                                      uint32_t index) {
  std::seed_seq sequence{name.seed, name.number, uint32_t(part), index};
  return Generator(sequence);
}

int32_t qwen::property::between(Generator &generator, int32_t least,
                                int32_t most) {
  return least + e2e::draw(generator, most - least + 1);
}

bool qwen::property::chance(Generator &generator, int32_t percent) {
  return e2e::draw(generator, 100) < percent;
}

/// The chosen elements, in their order; all of them where nothing is chosen.
template <typename T>
static std::vector<T> kept(const std::vector<T> &all,
                           const std::optional<std::vector<size_t>> &chosen) {
  if (!chosen)
    return all;
  std::vector<T> result;
  for (size_t index : *chosen)
    if (index < all.size())
      result.push_back(all[index]);
  return result;
}

//===----------------------------------------------------------------------===//
// Documents
//===----------------------------------------------------------------------===//

/// Around nothing, around the taps, around a chunk of the gated delta rule and
/// a block of attention, around two.
static int64_t drawLength(Generator &generator, int32_t most) {
  constexpr int64_t special[] = {1,  2,  3,  4,   5,   8,   31,
                                 63, 64, 65, 127, 128, 129, 193};
  if (most > 8 && chance(generator, 40))
    return std::min<int64_t>(special[e2e::draw(generator, 14)], most);
  return between(generator, 1, most);
}

/// One to two hundred documents, some of them empty, of 700 tokens or so at
/// most; at least one label.
static std::vector<TestDocument> drawDocuments(Generator &generator,
                                               int32_t vocabulary) {
  int32_t kind = e2e::draw(generator, 10);
  int32_t count = kind < 5   ? between(generator, 1, 8)
                  : kind < 8 ? between(generator, 9, 40)
                             : between(generator, 41, 200);
  int32_t longest = std::max(3, std::min(200, 1200 / count));
  int32_t emptyPercent = chance(generator, 50) ? 0 : between(generator, 1, 40);
  std::vector<TestDocument> documents;
  for (int32_t i = 0; i < count; ++i) {
    int64_t length =
        chance(generator, emptyPercent) ? 0 : drawLength(generator, longest);
    int32_t percent = chance(generator, 20) ? 0 : between(generator, 30, 100);
    documents.push_back(
        e2e::randomDocument(generator, length, vocabulary, percent));
  }
  if (e2e::countSupervised(documents) == 0)
    documents.push_back(e2e::randomDocument(generator, 3, vocabulary));
  return documents;
}

static std::string describeDocuments(const std::vector<TestDocument> &all) {
  constexpr size_t most = 30;
  std::string text;
  for (size_t i = 0; i < std::min(all.size(), most); ++i)
    text += fmt::format(" {}", all[i].length());
  if (all.size() > most)
    text += " ...";
  return fmt::format("{} documents of{} tokens, {} labels", all.size(), text,
                     e2e::countSupervised(all));
}

//===----------------------------------------------------------------------===//
// Packs
//===----------------------------------------------------------------------===//

std::vector<size_t> qwen::property::drawOrder(Generator &generator,
                                              size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t(0));
  for (size_t i = count; i > 1; --i)
    std::swap(order[i - 1], order[size_t(e2e::draw(generator, int32_t(i)))]);
  return order;
}

Split qwen::property::drawSplit(Generator &generator,
                                const std::vector<TestDocument> &documents,
                                const std::vector<size_t> &order,
                                const PlanSpec &spec) {
  // A border with this chance, one to six of them in the mean.
  int32_t percent =
      chance(generator, 30)
          ? 0
          : std::max(1, 100 * between(generator, 1, 6) / int(order.size() + 1));
  Split split(1);
  int64_t used = 0;
  for (size_t member : order) {
    int64_t length = documents[member].length();
    bool isFull = used + length > spec.tokens ||
                  int64_t(split.back().size()) == spec.maxDocuments;
    if (chance(generator, percent) || isFull) {
      split.emplace_back();
      used = 0;
    }
    split.back().push_back(member);
    used += length;
  }
  return split;
}

void qwen::property::drawPackSize(Generator &generator,
                                  const std::vector<TestDocument> &documents,
                                  PlanSpec &spec) {
  int64_t total = 0, longest = 1;
  for (const TestDocument &document : documents) {
    total += document.length();
    longest = std::max(longest, document.length());
  }
  auto count = int64_t(documents.size());
  // Exactly full, with some room, or a part of all.
  int32_t kind = e2e::draw(generator, 4);
  spec.tokens = kind == 0 ? std::max(total, longest)
                : kind == 1
                    ? total + between(generator, 1, 100)
                    : std::max(longest, total / between(generator, 1, 6));
  // Lengths that are no multiple of anything are as likely as round ones.
  if (chance(generator, 50))
    spec.tokens = (spec.tokens + 63) / 64 * 64;
  spec.maxDocuments = chance(generator, 50)
                          ? count + e2e::draw(generator, 5)
                          : (count + 5) / between(generator, 1, 6) + 1;
}

//===----------------------------------------------------------------------===//
// Whole
//===----------------------------------------------------------------------===//

static void drawTypes(Generator &generator, PlanSpec &spec) {
  bool isCuda = e2e::testOptions().isCuda();
  spec.dtype = isCuda || chance(generator, 40) ? "bf16" : "f32";
  if (spec.dtype == "bf16" && chance(generator, 40))
    spec.masters = "none";
  if (chance(generator, 25))
    spec.momentType = "bf16";
  // Fusion is exact on CPUs only.
  spec.fuse = isCuda;
}

Case qwen::property::drawCase(const CaseName &name) {
  Case result;
  result.name = name;
  Generator generator = generatorOf(name, Part::Model);
  bool isCuda = e2e::testOptions().isCuda();
  ModelShape shape =
      isCuda ? drawCudaShape(generator) : drawCpuShape(generator);
  result.layers = shape.isAttention.size();
  shape.isAttention = kept(shape.isAttention, name.layers);
  result.keyRows = shape.deltaKeyHeads * shape.deltaKeyDim;
  PlanSpec &spec = result.spec;
  spec.config = fmt::format("property-{}-{}", name.seed, name.number);
  spec.configText = configText(shape);
  spec.target = e2e::testOptions().target;
  generator = generatorOf(name, Part::Plan);
  drawTypes(generator, spec);
  Generator documents = generatorOf(name, Part::Documents);
  std::vector<TestDocument> all =
      drawDocuments(documents, int32_t(shape.vocabulary));
  // The size of a pack is that of the whole case.
  drawPackSize(generator, all, spec);
  result.wholeDocuments = all.size();
  result.documents = kept(all, name.documents);
  generator = generatorOf(name, Part::Packs);
  result.split = drawSplit(generator, result.documents,
                           drawOrder(generator, result.documents.size()), spec);
  result.modelText =
      fmt::format("{}, {}, masters {}, moments {}", describe(shape), spec.dtype,
                  spec.masters, spec.momentType);
  result.packsText =
      fmt::format("{} in {} packs", describeDocuments(result.documents),
                  result.split.size());
  return result;
}

std::string qwen::property::describePlan(const PlanSpec &spec) {
  std::string text = fmt::format(
      "recompute {}, fusion {}, packs of {} tokens and {} documents",
      spec.recompute, spec.fuse ? "on" : "off", spec.tokens, spec.maxDocuments);
  if (spec.worldSize > 1)
    text += fmt::format(", {} ranks, prefetch {}, reshard {}, gradients in {}, "
                        "embedding by {}",
                        spec.worldSize, spec.prefetch,
                        spec.reshardAfterForward ? "on" : "off", spec.gradType,
                        spec.embeddingExchange);
  return text;
}
