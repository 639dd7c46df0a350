//===- Slices.h - Parts of tensors that ranks hold -------------*- C++ -*-===//

#ifndef QWEN_RUNTIME_CHECKPOINT_SLICES_H
#define QWEN_RUNTIME_CHECKPOINT_SLICES_H

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/collectives/Communicator.h"

namespace qwen {

/// Verifies on all ranks that the slices of each parameter, in the order of the
/// ranks, are the whole without gap or overlap.
Status checkSlices(std::span<const ParameterView> parameters,
                   Communicator &ranks);

/// Bytes of the slice of `parameter` in a stored tensor of its shape. Their
/// address is not null, even where the slice is empty.
std::span<const std::byte> storedSlice(const StoredTensor &tensor,
                                       const ParameterView &parameter);

} // namespace qwen

#endif // QWEN_RUNTIME_CHECKPOINT_SLICES_H
