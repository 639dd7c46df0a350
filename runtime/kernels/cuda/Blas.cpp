//===- Blas.cpp - Matrix products through cuBLASLt -------------*- C++ -*-===//
//
// The library's matrices are column-major: a row-major product is handed over
// as its transpose, c^T = op(b)^T op(a)^T, so that the library's A is our b.
//
//===----------------------------------------------------------------------===//

#include "Blas.h"

#include <array>
#include <map>
#include <tuple>

#include <cublasLt.h>
#include <dlfcn.h>

using namespace qwen;
using namespace qwen::cuda;

//===----------------------------------------------------------------------===//
// The library
//===----------------------------------------------------------------------===//

namespace {

/// The soname first, then where NVIDIA's installer puts it.
constexpr const char *libraryNames[] = {
    "libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"};

/// The functions used, as declared in cublasLt.h.
struct Functions {
#define QWEN_CUBLASLT(F)                                                       \
  F(Create)                                                                    \
  F(Destroy)                                                                   \
  F(GetVersion)                                                                \
  F(Matmul)                                                                    \
  F(MatmulDescCreate)                                                          \
  F(MatmulDescDestroy)                                                         \
  F(MatmulDescSetAttribute)                                                    \
  F(MatrixLayoutCreate)                                                        \
  F(MatrixLayoutDestroy)                                                       \
  F(MatmulPreferenceCreate)                                                    \
  F(MatmulPreferenceDestroy)                                                   \
  F(MatmulPreferenceSetAttribute)                                              \
  F(MatmulAlgoGetHeuristic)                                                    \
  F(MatmulAlgoInit)                                                            \
  F(MatmulAlgoCheck)                                                           \
  F(MatmulAlgoConfigSetAttribute)                                              \
  F(MatmulAlgoConfigGetAttribute)
#define QWEN_FIELD(Name) decltype(&cublasLt##Name) Name = nullptr;
  QWEN_CUBLASLT(QWEN_FIELD)
#undef QWEN_FIELD

  /// False, with the function's name, where one is missing.
  bool find(void *object, const char *&missing) {
#define QWEN_FIND(Name)                                                        \
  missing = "cublasLt" #Name;                                                  \
  Name = reinterpret_cast<decltype(Name)>(dlsym(object, missing));             \
  if (!Name)                                                                   \
    return false;
    QWEN_CUBLASLT(QWEN_FIND)
#undef QWEN_FIND
    return true;
  }
};

/// One number of an algorithm: where it goes and how wide it is there.
struct AlgorithmField {
  cublasLtMatmulAlgoConfigAttributes_t attribute;
  size_t bytes;
};
/// In the order of gemmAlgorithmFields; the id is set by MatmulAlgoInit.
constexpr std::array<AlgorithmField, gemmAlgorithmFields.size()>
    algorithmFields = {{{CUBLASLT_ALGO_CONFIG_ID, 4},
                        {CUBLASLT_ALGO_CONFIG_TILE_ID, 4},
                        {CUBLASLT_ALGO_CONFIG_STAGES_ID, 4},
                        {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4},
                        {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4},
                        {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4},
                        {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4},
                        {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2},
                        {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2}}};

/// Reductions of split products: none is best, as then nothing about a row
/// depends on the grid; in place would add in order of arrival.
constexpr uint32_t reductionMasks[] = {
    CUBLASLT_REDUCTION_SCHEME_NONE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE |
                                        CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE};

cudaDataType_t dataType(DType dtype) {
  return dtype == DType::BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/// The greatest power of two up to 16 that divides the address: the widest
/// access of any of the library's kernels.
uint32_t alignmentOf(const void *address) {
  uint32_t alignment = 16;
  while (reinterpret_cast<uintptr_t>(address) % alignment != 0)
    alignment /= 2;
  return alignment;
}

/// What the product is added to, the library's C; its D is our c.
const void *startOf(const Product &p) { return p.addend ? p.addend : p.c; }
int64_t strideOfStart(const Product &p) {
  return p.addend ? p.strideAddend : p.strideC;
}

/// The library's descriptors of one product.
struct Descriptors {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr, d = nullptr;
};

/// A product that is ready to run.
struct Prepared {
  Descriptors descriptors;
  cublasLtMatmulAlgo_t algorithm;
};

/// What a preparation depends on.
struct Key {
  GemmShape shape;
  int64_t strideA, strideB, strideC, strideStart;
  uint32_t alignA, alignB, alignC, alignStart;
  GemmAlgorithm algorithm;
  auto operator<=>(const Key &) const = default;

  explicit Key(const Product &p)
      : shape(p.shape), strideA(p.strideA), strideB(p.strideB),
        strideC(p.strideC), strideStart(strideOfStart(p)),
        alignA(alignmentOf(p.a)), alignB(alignmentOf(p.b)),
        alignC(alignmentOf(p.c)), alignStart(alignmentOf(startOf(p))),
        algorithm(p.algorithm) {}
};

} // namespace

struct Blas::Library {
  void *object = nullptr;
  Functions call;
  cublasLtHandle_t handle = nullptr;
  std::map<Key, Prepared> products;
  int64_t replaced = 0; ///< algorithms that could not be used
  std::string firstReplaced;

  ~Library();
  Status describe(const Product &product, Descriptors &descriptors) const;
  void destroy(const Descriptors &descriptors) const;
  /// The library's proposals with one of the reductions of `mask`.
  Status propose(const Product &product, const Descriptors &descriptors,
                 uint32_t mask,
                 std::vector<cublasLtMatmulHeuristicResult_t> &results) const;
  /// The library's algorithm of that configuration; false where it has none.
  bool recreate(const Product &product, const Descriptors &descriptors,
                const GemmAlgorithm &numbers,
                cublasLtMatmulAlgo_t &algorithm) const;
};

Blas::Blas(std::unique_ptr<Library> library) : library(std::move(library)) {}
Blas::~Blas() = default;

Blas::Library::~Library() {
  for (const auto &[key, prepared] : products)
    destroy(prepared.descriptors);
  if (handle)
    call.Destroy(handle);
  // The object stays: its threads and static objects outlive a plan.
}

static Status blasError(const char *what, cublasStatus_t status,
                        const GemmShape &shape) {
  return makeError(StatusCode::Internal, "cuBLASLt {} of {}: status {}", what,
                   toString(shape), static_cast<int>(status));
}

StatusOr<std::unique_ptr<Blas>> Blas::create() {
  auto library = std::make_unique<Library>();
  std::string looked;
  for (const char *name : libraryNames) {
    library->object = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library->object)
      break;
    looked += (looked.empty() ? "" : ", ") + std::string(name);
  }
  if (!library->object)
    return makeError(StatusCode::NotFound,
                     "cannot load cuBLASLt of CUDA 13: looked for {}; add its "
                     "folder to LD_LIBRARY_PATH",
                     looked);
  const char *missing;
  if (!library->call.find(library->object, missing))
    return makeError(StatusCode::FailedPrecondition,
                     "libcublasLt.so.13 has no function {}", missing);
  cublasStatus_t status = library->call.Create(&library->handle);
  if (status != CUBLAS_STATUS_SUCCESS)
    return makeError(StatusCode::FailedPrecondition,
                     "cuBLASLt does not open on this device: status {}",
                     static_cast<int>(status));
  return std::unique_ptr<Blas>(new Blas(std::move(library)));
}

std::string Blas::version() const {
  size_t number = library->call.GetVersion();
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100,
                     number % 100);
}

std::string Blas::warning() const {
  if (library->replaced == 0)
    return {};
  return fmt::format("cuBLASLt {} has not the algorithms that the plan names "
                     "for {} products (the first is {}): its own first choice "
                     "runs instead",
                     version(), library->replaced, library->firstReplaced);
}

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

Status Blas::Library::describe(const Product &p, Descriptors &d) const {
  const GemmShape &s = p.shape;
  cublasOperation_t opA = s.transposeB ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasOperation_t opB = s.transposeA ? CUBLAS_OP_T : CUBLAS_OP_N;
  cudaDataType_t operands = dataType(s.operands), result = dataType(s.result);
  // Inner and outer dimension of each matrix as it lies in memory.
  int64_t aInner = s.transposeB ? s.k : s.n, aOuter = s.transposeB ? s.n : s.k;
  int64_t bInner = s.transposeA ? s.m : s.k, bOuter = s.transposeA ? s.k : s.m;
  for (cublasStatus_t status :
       {call.MatmulDescCreate(&d.product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        call.MatmulDescSetAttribute(d.product, CUBLASLT_MATMUL_DESC_TRANSA,
                                    &opA, sizeof(opA)),
        call.MatmulDescSetAttribute(d.product, CUBLASLT_MATMUL_DESC_TRANSB,
                                    &opB, sizeof(opB)),
        call.MatrixLayoutCreate(&d.a, operands, aInner, aOuter, p.strideB),
        call.MatrixLayoutCreate(&d.b, operands, bInner, bOuter, p.strideA),
        call.MatrixLayoutCreate(&d.c, result, s.n, s.m, strideOfStart(p)),
        call.MatrixLayoutCreate(&d.d, result, s.n, s.m, p.strideC)})
    if (status != CUBLAS_STATUS_SUCCESS)
      return blasError("descriptors", status, s);
  return okStatus();
}

void Blas::Library::destroy(const Descriptors &d) const {
  for (cublasLtMatrixLayout_t layout : {d.a, d.b, d.c, d.d})
    if (layout)
      call.MatrixLayoutDestroy(layout);
  if (d.product)
    call.MatmulDescDestroy(d.product);
}

Status Blas::Library::propose(
    const Product &p, const Descriptors &d, uint32_t mask,
    std::vector<cublasLtMatmulHeuristicResult_t> &results) const {
  cublasLtMatmulPreference_t preference = nullptr;
  if (cublasStatus_t status = call.MatmulPreferenceCreate(&preference);
      status != CUBLAS_STATUS_SUCCESS)
    return blasError("preference", status, p.shape);
  auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    return call.MatmulPreferenceSetAttribute(preference, attribute, &value,
                                             sizeof(value));
  };
  cublasStatus_t failed = CUBLAS_STATUS_SUCCESS;
  for (cublasStatus_t status :
       {set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
            uint64_t(productWorkspaceBytes)),
        set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, mask),
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignmentOf(p.b)),
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignmentOf(p.a)),
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            alignmentOf(startOf(p))),
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignmentOf(p.c))})
    if (status != CUBLAS_STATUS_SUCCESS)
      failed = status;
  int found = 0;
  if (failed == CUBLAS_STATUS_SUCCESS) {
    // NOT_SUPPORTED says that there are no proposals.
    cublasStatus_t status = call.MatmulAlgoGetHeuristic(
        handle, d.product, d.a, d.b, d.c, d.d, preference,
        static_cast<int>(results.size()), results.data(), &found);
    if (status != CUBLAS_STATUS_SUCCESS &&
        status != CUBLAS_STATUS_NOT_SUPPORTED)
      failed = status;
  }
  call.MatmulPreferenceDestroy(preference);
  results.resize(static_cast<size_t>(found));
  std::erase_if(results, [](const cublasLtMatmulHeuristicResult_t &result) {
    return result.state != CUBLAS_STATUS_SUCCESS;
  });
  return failed == CUBLAS_STATUS_SUCCESS
             ? okStatus()
             : blasError("proposals", failed, p.shape);
}

bool Blas::Library::recreate(const Product &p, const Descriptors &d,
                             const GemmAlgorithm &numbers,
                             cublasLtMatmulAlgo_t &algorithm) const {
  if (numbers.empty() || !isGemmAlgorithm(numbers))
    return false;
  // In place, parts would be added in order of arrival.
  if (numbers[4] == CUBLASLT_REDUCTION_SCHEME_INPLACE)
    return false;
  cudaDataType_t operands = dataType(p.shape.operands);
  cudaDataType_t result = dataType(p.shape.result);
  if (call.MatmulAlgoInit(handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, operands,
                          operands, result, result,
                          static_cast<int>(numbers[0]),
                          &algorithm) != CUBLAS_STATUS_SUCCESS)
    return false;
  for (size_t i = 1; i < numbers.size(); ++i) {
    uint32_t wide = static_cast<uint32_t>(numbers[i]);
    uint16_t narrow = static_cast<uint16_t>(numbers[i]);
    const auto &[attribute, bytes] = algorithmFields[i];
    if (bytes == 2 && narrow != wide)
      return false;
    const void *value = bytes == 2 ? static_cast<const void *>(&narrow) : &wide;
    if (call.MatmulAlgoConfigSetAttribute(&algorithm, attribute, value,
                                          bytes) != CUBLAS_STATUS_SUCCESS)
      return false;
  }
  cublasLtMatmulHeuristicResult_t checked{};
  return call.MatmulAlgoCheck(handle, d.product, d.a, d.b, d.c, d.d, &algorithm,
                              &checked) == CUBLAS_STATUS_SUCCESS &&
         checked.workspaceSize <= size_t(productWorkspaceBytes);
}

Status Blas::prepare(const Product &product) {
  Key key(product);
  if (library->products.contains(key))
    return okStatus();
  Prepared prepared{};
  Status status = library->describe(product, prepared.descriptors);
  bool ready =
      status.ok() && library->recreate(product, prepared.descriptors,
                                       product.algorithm, prepared.algorithm);
  if (status.ok() && !ready && !product.algorithm.empty() &&
      library->replaced++ == 0)
    library->firstReplaced = toString(product.shape);
  for (uint32_t mask : reductionMasks) {
    if (!status.ok() || ready)
      break;
    std::vector<cublasLtMatmulHeuristicResult_t> results(4);
    status = library->propose(product, prepared.descriptors, mask, results);
    ready = status.ok() && !results.empty();
    if (ready)
      prepared.algorithm = results[0].algo;
  }
  if (status.ok() && !ready)
    status = makeError(StatusCode::FailedPrecondition,
                       "cuBLASLt {} has no algorithm for the product {}",
                       version(), toString(product.shape));
  if (!status.ok()) {
    library->destroy(prepared.descriptors);
    return status;
  }
  library->products.emplace(std::move(key), prepared);
  return okStatus();
}

//===----------------------------------------------------------------------===//
// Running and tuning
//===----------------------------------------------------------------------===//

cudaError_t Blas::run(const Product &product, std::span<std::byte> workspace,
                      cudaStream_t stream) const {
  auto it = library->products.find(Key(product));
  if (it == library->products.end())
    return cudaErrorNotReady;
  const auto &[descriptors, algorithm] = it->second;
  float alpha = 1, beta = product.shape.adds ? 1 : 0;
  cublasStatus_t status = library->call.Matmul(
      library->handle, descriptors.product, &alpha, product.b, descriptors.a,
      product.a, descriptors.b, &beta, startOf(product), descriptors.c,
      product.c, descriptors.d, &algorithm, workspace.data(), workspace.size(),
      stream);
  switch (status) {
  case CUBLAS_STATUS_SUCCESS:
    return cudaSuccess;
  case CUBLAS_STATUS_INVALID_VALUE:
    return cudaErrorInvalidValue;
  case CUBLAS_STATUS_NOT_SUPPORTED:
  case CUBLAS_STATUS_ARCH_MISMATCH:
    return cudaErrorNotSupported;
  default:
    return cudaErrorLaunchFailure;
  }
}

StatusOr<std::vector<GemmAlgorithm>> Blas::candidates(const Product &product,
                                                      int count) const {
  Descriptors descriptors;
  Status status = library->describe(product, descriptors);
  std::vector<GemmAlgorithm> found;
  for (uint32_t mask : reductionMasks) {
    std::vector<cublasLtMatmulHeuristicResult_t> results(count);
    if (status.ok())
      status = library->propose(product, descriptors, mask, results);
    for (size_t i = 0; status.ok() && i < results.size(); ++i) {
      GemmAlgorithm numbers;
      for (const auto &[attribute, bytes] : algorithmFields) {
        uint32_t value = 0; // little-endian: also holds two bytes
        size_t written;
        library->call.MatmulAlgoConfigGetAttribute(&results[i].algo, attribute,
                                                   &value, bytes, &written);
        numbers.push_back(value);
      }
      found.push_back(std::move(numbers));
    }
  }
  library->destroy(descriptors);
  if (!status.ok())
    return status;
  return found;
}

bool Blas::accepts(const Product &product,
                   const GemmAlgorithm &algorithm) const {
  Descriptors descriptors;
  cublasLtMatmulAlgo_t recreated;
  bool accepted = library->describe(product, descriptors).ok() &&
                  library->recreate(product, descriptors, algorithm, recreated);
  library->destroy(descriptors);
  return accepted;
}
