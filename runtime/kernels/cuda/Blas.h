//===- Blas.h - Matrix products through cuBLASLt ---------------*- C++ -*-===//
//
// The library is found with dlopen when a plan needs it, so a program with the
// kernels starts without it. A product is prepared once, when a plan is loaded:
// descriptors, and the algorithm that the plan names or the library's first
// choice among those that give the same bits on every run. Nothing is chosen by
// timing.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_BLAS_H
#define QWEN_RUNTIME_KERNELS_CUDA_BLAS_H

#include "GemmShape.h"
#include "qwen/Support/Status.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <cuda_runtime.h>

namespace qwen::cuda {

/// A product on device memory; strides are those of rows, in elements.
struct Product {
  GemmShape shape;
  const void *a = nullptr;
  int64_t strideA = 0;
  const void *b = nullptr;
  int64_t strideB = 0;
  void *c = nullptr;
  int64_t strideC = 0;
  /// What the product is added to where shape.adds; null: c.
  const void *addend = nullptr;
  int64_t strideAddend = 0;
  GemmAlgorithm algorithm = {}; ///< empty: the library's first choice
};

/// The library on the current device. One thread at a time.
class Blas {
public:
  /// Finds the library and opens it on the current device.
  static StatusOr<std::unique_ptr<Blas>> create();
  ~Blas();
  Blas(const Blas &) = delete;
  Blas &operator=(const Blas &) = delete;

  /// Prepares the product for run. An algorithm that this library or card does
  /// not have is replaced by the library's first choice, see warning().
  Status prepare(const Product &product);

  /// Enqueues a prepared product. Layouts, types, the algorithm and the
  /// alignment of addresses are those of the preparation.
  cudaError_t run(const Product &product, std::span<std::byte> workspace,
                  cudaStream_t stream) const;

  /// Algorithms that the library proposes for the product and that give the
  /// same bits on every run, its first choice first; for tuning.
  StatusOr<std::vector<GemmAlgorithm>> candidates(const Product &product,
                                                  int count) const;
  /// Whether the library can run the product by this algorithm.
  bool accepts(const Product &product, const GemmAlgorithm &algorithm) const;

  /// One line about algorithms of the plan that had to be replaced, or "".
  std::string warning() const;
  /// "13.1.0".
  std::string version() const;

private:
  struct Library;
  explicit Blas(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library;
};

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_BLAS_H
