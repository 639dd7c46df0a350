//===- ViewOverlap.h - Do two strided views share a byte? ------*- C++ -*-===//
//
// Column slices and interleaved heads of one matrix have overlapping address
// ranges and no common element; launches on them are legal.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_PLAN_VIEWOVERLAP_H
#define QWEN_RUNTIME_PLAN_VIEWOVERLAP_H

#include "qwen/Plan/Buffer.h"

namespace qwen {

/// True where the views, at byte offsets of one buffer, are proven to share no
/// byte. Exact for views that are nested the same way; false otherwise, unless
/// their address ranges are apart.
bool provenDisjoint(const BufferType &a, int64_t aOffset, const BufferType &b,
                    int64_t bOffset);

} // namespace qwen

#endif // QWEN_RUNTIME_PLAN_VIEWOVERLAP_H
