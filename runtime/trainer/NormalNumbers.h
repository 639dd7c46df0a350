//===- NormalNumbers.h - Normal random numbers, many at once ---*- C++ -*-===//
//
// Numbers by Box and Muller from the counter-based generator, 64 at a time, so
// that the compiler makes vector code of it. Logarithm and cosine are written
// out: every operation is one that IEEE 754 defines to the bit, so a number
// does not depend on the processor or on its mathematical library.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_TRAINER_NORMALNUMBERS_H
#define QWEN_RUNTIME_TRAINER_NORMALNUMBERS_H

#include <cstdint>
#include <span>

namespace qwen {

/// Fills `out` with standard normal numbers: those of elements first,
/// first + 1, … of stream (0, tensor) of RandomUse::Initialization.
void fillNormal(std::span<double> out, uint32_t seed, uint32_t tensor,
                uint64_t first);

} // namespace qwen

#endif // QWEN_RUNTIME_TRAINER_NORMALNUMBERS_H
