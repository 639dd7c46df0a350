//===- Documents.h - Document boundaries of a pack -------------*- C++ -*-===//
//
// Reads cu_seqlens at launch. The first document starts at token 0, boundaries
// are held inside [0, tokens], and documents end where a boundary decreases, so
// that each token up to the last boundary is in one document and no content of
// the buffer can lead outside the operands or the scratch.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CPU_DOCUMENTS_H
#define QWEN_RUNTIME_KERNELS_CPU_DOCUMENTS_H

#include "Parallel.h"
#include "qwen/Plan/Buffer.h"

#include <algorithm>
#include <cstring>

namespace qwen::cpu {

/// Documents of one pack; some may be empty.
class Documents {
public:
  Documents(const ConstBuffer &cuSeqlens, int64_t tokens)
      : boundaries(cuSeqlens.as<int32_t>()), number(0), tokens(tokens) {
    while (number < cuSeqlens.dim(0) - 1 &&
           boundaries[number] <= boundaries[number + 1])
      ++number;
  }

  int64_t count() const { return number; }
  int64_t begin(int64_t document) const { return clamped(document); }
  int64_t end(int64_t document) const { return clamped(document + 1); }
  int64_t length(int64_t document) const {
    return end(document) - begin(document);
  }
  /// Tokens of all documents; the rest of the pack belongs to none.
  int64_t total() const { return number > 0 ? clamped(number) : 0; }
  /// The document that holds `token`, which must be below total().
  int64_t find(int64_t token) const {
    const int32_t *next =
        std::upper_bound(boundaries, boundaries + number + 1, token);
    return std::clamp<int64_t>(next - boundaries - 1, 0, number - 1);
  }

private:
  int64_t clamped(int64_t i) const {
    return i == 0 ? 0 : std::clamp<int64_t>(boundaries[i], 0, tokens);
  }

  const int32_t *boundaries;
  int64_t number, tokens;
};

/// Writes the non-empty documents to `items`, longest first, so that the last
/// pieces of work are short ones. Returns how many there are.
inline int64_t listDocuments(const Documents &documents, DocumentItem *items) {
  int64_t count = 0;
  for (int64_t d = 0; d < documents.count(); ++d)
    if (documents.length(d) > 0)
      items[count++] = {static_cast<int32_t>(d), 0};
  std::sort(items, items + count, [&](DocumentItem x, DocumentItem y) {
    int64_t lx = documents.length(x.document);
    int64_t ly = documents.length(y.document);
    return lx != ly ? lx > ly : x.document < y.document;
  });
  return count;
}

/// Zeroes the rows of a [T, ...] view from token `first` on; inner dimensions
/// may be strided.
inline void zeroTokensFrom(const Buffer &out, int64_t first) {
  int64_t heads = out.rank == 3 ? out.dim(1) : 1;
  int64_t headStride = out.rank == 3 ? out.strides[1] : 0;
  int64_t inner = out.rank == 1 ? 1 : out.dim(out.rank - 1);
  int64_t bytes = dtypeBytes(out.dtype);
  for (int64_t t = first; t < out.dim(0); ++t)
    for (int64_t h = 0; h < heads; ++h)
      std::memset(static_cast<std::byte *>(out.data) +
                      (t * out.strides[0] + h * headStride) * bytes,
                  0, inner * bytes);
}

} // namespace qwen::cpu

#endif // QWEN_RUNTIME_KERNELS_CPU_DOCUMENTS_H
