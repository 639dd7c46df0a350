//===- GemmCudaTest.cpp - Products of cuBLASLt against the CPU ------------===//
//
// All transposes and types, slices of wider rows, widths that no tile divides,
// sums with what c or another matrix holds; rows at other places; algorithms
// that a plan names, and ones that the library does not have. A program of its
// own, as it needs a GPU:
//
//   GemmCudaTest         parity, exit status 1 on a miss
//   GemmCudaTest small   the same on small shapes (for sanitizers)
//
//===----------------------------------------------------------------------===//

#include "CudaTesting.h"

#include "runtime/kernels/cuda/Blas.h"

#include <tuple>

using namespace qwen;
using namespace qwen::cudatest;

namespace {

enum class Sum { None, Accumulate, Addend };

struct GemmCase {
  int64_t m, n, k;
  bool transposeA, transposeB;
  Sum sum;
  Tensor a, b, c, addend;
  GemmAlgorithm algorithm;

  GemmCase(std::tuple<int64_t, int64_t, int64_t> size, bool transposeA,
           bool transposeB, DType operands, DType result, Sum sum, int64_t gap,
           uint64_t seed)
      : m(std::get<0>(size)), n(std::get<1>(size)), k(std::get<2>(size)),
        transposeA(transposeA), transposeB(transposeB), sum(sum),
        a(operands, shape(m, k, transposeA), gap),
        b(operands, shape(k, n, transposeB), gap), c(result, {m, n}, gap),
        addend(result, {m, n}, gap) {
    std::mt19937_64 random(seed);
    for (Tensor *operand : {&a, &b, &c, &addend}) {
      operand->uniform(random, -1, 1);
      operand->toDevice();
    }
  }
  static std::vector<int64_t> shape(int64_t rows, int64_t columns,
                                    bool transpose) {
    return transpose ? std::vector{columns, rows} : std::vector{rows, columns};
  }
  template <typename F> GemmArgs args(F at) {
    GemmArgs args;
    args.a = at(a);
    args.b = at(b);
    args.c = at(c);
    args.transposeA = transposeA;
    args.transposeB = transposeB;
    args.accumulate = sum == Sum::Accumulate;
    if (sum == Sum::Addend)
      args.addend = {at(addend)};
    args.algorithm = algorithm;
    return args;
  }
};

void testProducts(bool small) {
  std::vector<std::tuple<int64_t, int64_t, int64_t>> sizes = {
      {1, 1, 1}, {37, 50, 77}, {64, 264, 128}, {128, 300, 136}};
  if (!small)
    for (auto size : {std::tuple<int64_t, int64_t, int64_t>{512, 640, 1152},
                      {1000, 264, 256},
                      {255, 1031, 2048}})
      sizes.push_back(size);
  const std::pair<DType, DType> types[] = {{DType::BF16, DType::BF16},
                                           {DType::BF16, DType::F32},
                                           {DType::F32, DType::F32}};
  uint64_t seed = 1;
  for (auto size : sizes)
    for (int transposes = 0; transposes < 4; ++transposes)
      for (auto [operands, result] : types)
        for (Sum sum : {Sum::None, Sum::Accumulate, Sum::Addend}) {
          GemmCase c(size, transposes % 2, transposes / 2, operands, result,
                     sum, seed % 2 ? 0 : 8, seed);
          ++seed;
          if (transposes % 2 && result == DType::BF16 && sum != Sum::None) {
            report("sum in bf16 of a transposed left operand", "is taken",
                   !cuda::unsupportedReason(c.args(onDevice)).empty());
            continue;
          }
          runOnCpu(c.args(onHost));
          runOnGpu(c.args(onDevice));
          std::string name = cuda::toString(cuda::gemmShape(c.args(onDevice)));
          expectClose(name.c_str(), c.c, sumTolerance(operands, double(c.k)));
          if (sum != Sum::Accumulate)
            expectRerunEqual(name.c_str(), c.args(onDevice), {&c.c});
        }
}

/// Rows of op(a) in reverse order give the same rows of c in reverse order.
/// The last row comes to a place of another tile, or of another part of one.
void testRowPlaces(GemmCase &c, const char *name) {
  runOnGpu(c.args(onDevice));
  auto forward = c.c.deviceBytes();
  Tensor reversed(c.a.type.dtype, {c.m, c.k});
  for (int64_t i = 0; i < c.m; ++i)
    for (int64_t l = 0; l < c.k; ++l)
      reversed.set((c.m - 1 - i) * c.k + l, c.a.get(i * c.k + l));
  reversed.toDevice();
  GemmArgs args = c.args(onDevice);
  args.a = reversed.onDevice();
  c.c.poisonDevice();
  runOnGpu(args);
  auto backward = c.c.deviceBytes();
  bool same = true;
  for (int64_t i = 0; i < c.m; ++i)
    for (int64_t j = 0; j < c.n; ++j)
      same = same && c.c.get(forward, i * c.n + j) ==
                         c.c.get(backward, (c.m - 1 - i) * c.n + j);
  report(name, "depends on the place of a row", same);
}

void testPlaces(bool small) {
  std::tuple<int64_t, int64_t, int64_t> size = {700, 520, 384};
  if (small)
    size = {150, 72, 96};
  for (bool transposeB : {true, false})
    for (DType result : {DType::BF16, DType::F32}) {
      GemmCase c(size, false, transposeB, DType::BF16, result, Sum::None, 0, 3);
      testRowPlaces(c, transposeB ? "forward" : "input gradient");
    }
}

/// Each algorithm that the library proposes works when a plan names it, and
/// rounds a sum once.
void testNamedAlgorithms(bool transposeB, Sum sum) {
  cuda::Blas *blas = require(bench::sharedBlas());
  GemmCase c({256, 320, 512}, false, transposeB, DType::BF16, DType::BF16, sum,
             0, 4);
  GemmArgs args = c.args(onDevice);
  cuda::Product product{.shape = cuda::gemmShape(args),
                        .a = args.a.data,
                        .strideA = c.k,
                        .b = args.b.data,
                        .strideB = transposeB ? c.k : c.n,
                        .c = args.c.data,
                        .strideC = c.n};
  auto proposed = require(blas->candidates(product, 8));
  report("candidates", "are missing", !proposed.empty());
  runOnCpu(c.args(onHost));
  int accepted = 0;
  for (const GemmAlgorithm &algorithm : proposed) {
    if (!blas->accepts(product, algorithm))
      continue;
    ++accepted;
    c.algorithm = algorithm;
    c.c.poisonDevice();
    runOnGpu(c.args(onDevice));
    expectClose("named algorithm", c.c, sumTolerance(DType::BF16, 512));
  }
  std::printf("%d of %zu proposed algorithms are accepted by name\n", accepted,
              proposed.size());
  report("proposed algorithms", "are not accepted by name",
         proposed.empty() || accepted > 0);
  report("named algorithms", "were replaced", blas->warning().empty());
}

/// An algorithm of another card or library gives way to the first choice.
void testUnknownAlgorithm() {
  cuda::Blas *blas = require(bench::sharedBlas());
  GemmCase c({64, 72, 128}, false, true, DType::BF16, DType::BF16, Sum::None, 0,
             5);
  c.algorithm = GemmAlgorithm(gemmAlgorithmFields.size(), 60000);
  runOnCpu(c.args(onHost));
  runOnGpu(c.args(onDevice));
  expectClose("unknown algorithm", c.c, sumTolerance(DType::BF16, 128));
  std::printf("%s\n", blas->warning().c_str());
  report("unknown algorithm", "was replaced in silence",
         blas->warning().find("64x72x128") != std::string::npos);
}

/// A launch without preparation is an error, not a search for algorithms.
void testUnprepared() {
  cuda::Blas *blas = require(bench::sharedBlas());
  GemmCase c({16, 24, 40}, false, true, DType::BF16, DType::BF16, Sum::None, 0,
             6);
  cudaError_t error = cuda::launch(c.args(onDevice), {nullptr, {}, {}, blas});
  report("unprepared product", "ran", error == cudaErrorNotReady);
}

} // namespace

int main(int argc, char **argv) {
  requireGpu();
  bool small = argc > 1 && std::strcmp(argv[1], "small") == 0;
  std::printf("cuBLASLt %s\n", require(bench::sharedBlas())->version().c_str());
  testUnprepared();
  testProducts(small);
  testPlaces(small);
  for (bool transposeB : {true, false})
    for (Sum sum : {Sum::None, Sum::Addend})
      testNamedAlgorithms(transposeB, sum);
  testUnknownAlgorithm();
  return summary();
}
