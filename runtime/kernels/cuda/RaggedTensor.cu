//===- RaggedTensor.cu - Makes the tensor maps of RaggedTensor -*- CUDA -*-===//
//
// The driver's encoder is found at run time, so that nothing links libcuda.
//
//===----------------------------------------------------------------------===//

#include "RaggedTensor.cuh"

using namespace qwen;
using namespace qwen::cuda;

static decltype(&cuTensorMapEncodeTiled) findEncoder() {
  void *function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  cudaError_t error = cudaGetDriverEntryPointByVersion(
      "cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess)
    return nullptr;
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
}

cudaError_t qwen::cuda::makeRaggedTensor(RaggedTensor &tensor,
                                         const ConstBuffer &buffer) {
  static const auto encode = findEncoder();
  if (!encode)
    return cudaErrorNotSupported;
  const cuuint64_t panel = 64, unit = 128, far = 0x7fff0000;
  cuuint64_t rowBytes = buffer.strides[0] * sizeof(uint16_t);
  cuuint64_t lastHead = (buffer.dim(1) - 1) * buffer.strides[1];
  const cuuint64_t sizes[5] = {panel, cuuint64_t(raggedRows),
                               (lastHead + buffer.dim(2)) / panel, far, far};
  const cuuint64_t strides[4] = {rowBytes, unit, rowBytes,
                                 (cuuint64_t(1) << 34) - rowBytes};
  const cuuint32_t box[5] = {64, 64, cuuint32_t(buffer.dim(2) / 64), 1, 1};
  const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  tensor.headUnits = int(buffer.strides[1] / 64);
  CUresult result = encode(
      &tensor.map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 5,
      const_cast<void *>(buffer.data), sizes, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}
