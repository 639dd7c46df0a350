//===- TestCode.cpp - Stands for generated code ---------------------------===//
//
// Built as a shared object; the executor test puts its bytes into a plan.
//
//===----------------------------------------------------------------------===//

#include <cstdint>

/// out[row, 0..6) = 2 in[row, 0..6).
extern "C" void twice(void *const *operands, void *, int64_t rowBegin,
                      int64_t rowEnd) {
  const float *in = static_cast<const float *>(operands[0]);
  float *out = static_cast<float *>(operands[1]);
  for (int64_t i = rowBegin * 6; i < rowEnd * 6; ++i)
    out[i] = 2 * in[i];
}
