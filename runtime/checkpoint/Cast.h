//===- Cast.h - Element types on disk and in memory ------------*- C++ -*-===//
//
// Conversion between the element types of files and those of a plan. Every
// conversion goes through double, which holds all of them exactly, and rounds
// once, to nearest even.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_CHECKPOINT_CAST_H
#define QWEN_RUNTIME_CHECKPOINT_CAST_H

#include "qwen/Plan/Buffer.h"
#include "runtime/checkpoint/Safetensors.h"

#include <cstddef>
#include <span>

namespace qwen {

/// True for the element types that weights come in: F64, F32, BF16, F16.
bool isWeightDType(FileDType dtype);

/// The file's name for an element type in memory.
FileDType fileDTypeOf(DType dtype);

/// True where every value of `from` is a value of `to`.
bool holdsExactly(FileDType to, DType from);

/// True where every value of the file type `from` is a value of `to`.
bool holdsExactly(DType to, FileDType from);

/// Converts file elements to memory. `from` is a weight dtype, `to` not I32,
/// and `file` has as many elements as `live`, which is contiguous.
void loadElements(FileDType from, std::span<const std::byte> file,
                  const Buffer &live);

/// Converts elements [first, first + count) of `live` to file elements. Where
/// `original` is not empty it is the tensor that was loaded: an element that
/// still equals the rounding of its original is written as the original, so
/// that what training did not move keeps every bit.
void storeElements(const ConstBuffer &live, int64_t first, int64_t count,
                   FileDType to, std::span<const std::byte> original,
                   std::byte *out);

/// Index of the first element that is NaN or infinite, or -1.
int64_t firstNonFinite(const ConstBuffer &live);

/// Mean of all elements in double.
double meanOf(const ConstBuffer &live);

} // namespace qwen

#endif // QWEN_RUNTIME_CHECKPOINT_CAST_H
