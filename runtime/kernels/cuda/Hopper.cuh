//===- Hopper.cuh - Hopper (sm_90a) building blocks ------------*- CUDA -*-===//
//
// Thin wrappers around the instructions that the matrix-bound kernels need:
// mbarriers, bulk copies, wgmma, ldmatrix and stmatrix, named barriers. bf16
// operands, f32 accumulators, the 128-byte swizzle everywhere.
//
// A panel is R rows of 64 bf16 columns, R rows of 128 bytes, swizzled; R is a
// multiple of 8 and the panel starts at a multiple of 1024 bytes. A wider tile
// is a sequence of panels.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_HOPPER_CUH
#define QWEN_RUNTIME_KERNELS_CUDA_HOPPER_CUH

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#define QWEN_DEVICE __device__ __forceinline__

namespace qwen::cuda {

/// A byte address in the window of the block's shared memory.
using SmemAddr = uint32_t;

/// Which dimension of an operand is contiguous in memory: K, or the other one
/// (M of A, N of B). The values are those of the wgmma "transpose" immediates.
enum class Major : int { K = 0, MN = 1 };

//===----------------------------------------------------------------------===//
// Swizzled tiles
//===----------------------------------------------------------------------===//

/// Byte offset of element (row, column), column < 64, in its panel: the index
/// of the 16-byte piece is XORed with row % 8.
QWEN_DEVICE constexpr uint32_t swizzled(uint32_t row, uint32_t column) {
  return row * 128 + (((column >> 3) ^ (row & 7)) << 4) + (column & 7) * 2;
}

/// As swizzled, in a tile of panels of `panelBytes`.
QWEN_DEVICE constexpr uint32_t tileOffset(uint32_t row, uint32_t column,
                                          uint32_t panelBytes) {
  return column / 64 * panelBytes + swizzled(row, column % 64);
}

/// A wgmma operand in shared memory. Major::K: rows are M or N, columns k.
/// Major::MN: rows are k, columns M or N.
template <Major major> class Operand {
public:
  QWEN_DEVICE Operand(SmemAddr tile, uint32_t panelBytes)
      : panelBytes(panelBytes) {
    uint64_t toNextPanel = major == Major::K ? 16 : panelBytes;
    constexpr uint64_t toNextEightRows = 1024, swizzle128 = uint64_t(1) << 62;
    descriptor = uint64_t(tile >> 4) | (toNextPanel >> 4) << 16 |
                 (toNextEightRows >> 4) << 32 | swizzle128;
  }

  /// The descriptor from `k` on, a multiple of 16.
  QWEN_DEVICE uint64_t at(uint32_t k) const {
    uint32_t bytes =
        major == Major::K ? k / 64 * panelBytes + k % 64 * 2 : k * 128;
    return descriptor + (bytes >> 4);
  }

private:
  uint64_t descriptor;
  uint32_t panelBytes;
};

//===----------------------------------------------------------------------===//
// Barriers and fences
//===----------------------------------------------------------------------===//

QWEN_DEVICE SmemAddr smemAddress(const void *pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// A value that all lanes of the warp share, so that the compiler knows it.
QWEN_DEVICE int uniform(int value) { return __shfl_sync(~0u, value, 0); }
QWEN_DEVICE int warpgroupIndex() { return uniform(threadIdx.x / 128); }

/// Waits at barrier `id` (1 to 15) for `threads` threads.
QWEN_DEVICE void namedSync(uint32_t id, uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Raises or lowers the registers of each thread of this warpgroup.
template <int count> QWEN_DEVICE void raiseRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count> QWEN_DEVICE void lowerRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

/// Orders this thread's earlier plain accesses to shared memory before later
/// ones by bulk copies and wgmma.
QWEN_DEVICE void fenceProxyAsync() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

QWEN_DEVICE void barrierInit(SmemAddr barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier),
               "r"(arrivals)
               : "memory");
}
/// After the last barrierInit of the initialising thread.
QWEN_DEVICE void barrierInitFence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  fenceProxyAsync();
}
QWEN_DEVICE void barrierArrive(SmemAddr barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier)
               : "memory");
}
/// What barrierArriveWarp counts: one lane arrives for its warp. Define
/// QWEN_RACECHECK for compute-sanitizer, which follows only the lane that
/// arrives, and every lane does.
#ifdef QWEN_RACECHECK
inline constexpr uint32_t warpArrivals = 32;
#else
inline constexpr uint32_t warpArrivals = 1;
#endif
/// The arrival of a warp, after the whole warp is done.
QWEN_DEVICE void barrierArriveWarp(SmemAddr barrier) {
  __syncwarp();
  if (warpArrivals == 32 || threadIdx.x % 32 == 0)
    barrierArrive(barrier);
}
/// One arrival; the phase also waits for `bytes` of bulk copies.
QWEN_DEVICE void barrierArriveExpect(SmemAddr barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
      "r"(bytes)
      : "memory");
}
/// Waits for the phase of parity `parity`. On a fresh barrier parity 1 has
/// passed.
QWEN_DEVICE void barrierWait(SmemAddr barrier, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
  } while (!done);
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// Contiguous bytes to shared memory; completes on `barrier`. One thread.
QWEN_DEVICE void bulkLoad(SmemAddr to, const void *from, uint32_t bytes,
                          SmemAddr barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
/// Contiguous bytes to the L2 cache. One thread.
QWEN_DEVICE void bulkPrefetch(const void *from, uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from),
               "r"(bytes)
               : "memory");
}
/// Contiguous bytes from shared memory, in this thread's store group.
QWEN_DEVICE void bulkStore(void *to, SmemAddr from, uint32_t bytes) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
      "r"(from), "r"(bytes)
      : "memory");
}
QWEN_DEVICE void bulkStoreCommit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// Until this thread's store groups have read their shared memory.
QWEN_DEVICE void bulkStoreWaitRead() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
/// Until this thread's store groups have written.
QWEN_DEVICE void bulkStoreWait() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/// 16 bytes to shared memory, zeros where not `valid` (then nothing is read).
QWEN_DEVICE void copyOrZero(SmemAddr to, const void *from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
               "l"(from), "r"(valid ? 16 : 0)
               : "memory");
}
/// Counts as one arrival once this thread's earlier copies are done.
QWEN_DEVICE void copyArrive(SmemAddr barrier) {
  asm volatile(
      "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier)
      : "memory");
}
QWEN_DEVICE void copyWaitAll() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

/// Rounds to nearest even; `low` goes to the low half.
QWEN_DEVICE uint32_t packBf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
QWEN_DEVICE float lowBf16(uint32_t packed) {
  return __uint_as_float(packed << 16);
}
QWEN_DEVICE float highBf16(uint32_t packed) {
  return __uint_as_float(packed & 0xffff0000u);
}

// An accumulator of m64nN: thread t of the warpgroup holds in register i the
// row 16 (t / 32) + t % 32 / 4 + 8 (i / 2 % 2) and the column
// 8 (i / 4) + 2 (t % 4) + i % 2. Columns [16 j, 16 j + 16) of it, packed
// pairwise, are the A fragment of k-step j.

/// The A fragments of an accumulator.
template <int registers>
QWEN_DEVICE void packAccumulator(uint32_t (&a)[registers / 8][4],
                                 const float (&d)[registers]) {
#pragma unroll
  for (int i = 0; i < registers / 2; ++i)
    a[i / 4][i % 4] = packBf16(d[2 * i], d[2 * i + 1]);
}

QWEN_DEVICE void loadMatricesTransposed(uint32_t (&r)[4], SmemAddr row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
               "{%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}
QWEN_DEVICE void loadMatrices(uint32_t (&r)[4], SmemAddr row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
               "{%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}
QWEN_DEVICE void storeMatrices(SmemAddr row, const uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], "
               "{%1, %2, %3, %4};" ::"r"(row),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}
QWEN_DEVICE void storeMatricesTransposed(SmemAddr row, const uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], "
               "{%1, %2, %3, %4};" ::"r"(row),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

/// Stores packed fragments [64, 16 steps] of a warpgroup into a tile of 64
/// columns a panel, same rows and columns.
template <int steps>
QWEN_DEVICE void storeFragments(const uint32_t (&a)[steps][4], SmemAddr tile,
                                uint32_t panelBytes) {
  uint32_t lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
#pragma unroll
  for (int j = 0; j < steps; ++j)
    storeMatrices(tile + tileOffset(16 * warp + lane % 16,
                                    16 * j + lane / 16 * 8, panelBytes),
                  a[j]);
}

/// Byte offset of the row that a lane names when the transposed fragment of
/// k-step `j` of a warpgroup is loaded from or stored to one panel.
QWEN_DEVICE uint32_t transposedRow(int j) {
  uint32_t lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
  uint32_t matrix = lane / 8;
  return swizzled(16 * j + 8 * (matrix / 2) + lane % 8,
                  16 * warp + 8 * (matrix % 2));
}
/// Fragments [64 columns of the panel, 64 rows of it] of the panel transposed.
QWEN_DEVICE void loadTransposed(uint32_t (&a)[4][4], SmemAddr panel) {
#pragma unroll
  for (int j = 0; j < 4; ++j)
    loadMatricesTransposed(a[j], panel + transposedRow(j));
}
QWEN_DEVICE void storeTransposed(const uint32_t (&a)[4][4], SmemAddr panel) {
#pragma unroll
  for (int j = 0; j < 4; ++j)
    storeMatricesTransposed(panel + transposedRow(j), a[j]);
}

//===----------------------------------------------------------------------===//
// wgmma: D[64, N] (+)= A[64, 16] B[16, N]
//===----------------------------------------------------------------------===//

/// Between an ordinary access to a register and a wgmma that uses it.
QWEN_DEVICE void wgmmaFence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
QWEN_DEVICE void wgmmaCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Keeps uses of the registers behind an earlier wgmmaWait.
template <int count> QWEN_DEVICE void holdRegisters(float (&d)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i)
    asm volatile("" : "+f"(d[i])::"memory");
}
/// Until at most `pending` of the newest groups are unfinished.
template <int pending> QWEN_DEVICE void wgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// clang-format off
#define QWEN_ACC4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define QWEN_ACC16(i) QWEN_ACC4(i), QWEN_ACC4(i + 4), QWEN_ACC4(i + 8), QWEN_ACC4(i + 12)
#define QWEN_REGS32 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16," \
  "%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define QWEN_REGS64 QWEN_REGS32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43," \
  "%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define QWEN_ACC64(i) QWEN_ACC16(i), QWEN_ACC16(i + 16), QWEN_ACC16(i + 32), QWEN_ACC16(i + 48)
#define QWEN_REGS128 QWEN_REGS64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76," \
  "%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97," \
  "%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114," \
  "%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
// clang-format on

/// A and B in shared memory.
template <int n, Major majorA, Major majorB>
QWEN_DEVICE void wgmma(float (&d)[n / 2], uint64_t a, uint64_t b,
                       bool accumulate) {
  static_assert(n == 64 || n == 128 || n == 256);
  if constexpr (n == 64)
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{" QWEN_REGS32 "}, %32, %33, p, 1, 1, %35, %36;\n}"
                 : QWEN_ACC16(0), QWEN_ACC16(16)
                 : "l"(a), "l"(b), "r"(int(accumulate)), "n"(int(majorA)),
                   "n"(int(majorB)));
  else if constexpr (n == 256)
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
                 "{" QWEN_REGS128 "}, %128, %129, p, 1, 1, %131, %132;\n}"
                 : QWEN_ACC64(0), QWEN_ACC64(64)
                 : "l"(a), "l"(b), "r"(int(accumulate)), "n"(int(majorA)),
                   "n"(int(majorB)));
  else
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 "{" QWEN_REGS64 "}, %64, %65, p, 1, 1, %67, %68;\n}"
                 : QWEN_ACC16(0), QWEN_ACC16(16), QWEN_ACC16(32), QWEN_ACC16(48)
                 : "l"(a), "l"(b), "r"(int(accumulate)), "n"(int(majorA)),
                   "n"(int(majorB)));
}

/// A in registers.
template <int n, Major majorB>
QWEN_DEVICE void wgmma(float (&d)[n / 2], const uint32_t (&a)[4], uint64_t b,
                       bool accumulate) {
  static_assert(n == 64 || n == 128 || n == 256);
  if constexpr (n == 64)
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{" QWEN_REGS32 "}, {%32,%33,%34,%35}, %36, p, 1, 1, %38;\n}"
                 : QWEN_ACC16(0), QWEN_ACC16(16)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),
                   "r"(int(accumulate)), "n"(int(majorB)));
  else if constexpr (n == 256)
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %133, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
                 "{" QWEN_REGS128 "}, {%128,%129,%130,%131}, %132, p, 1, 1, "
                 "%134;\n}"
                 : QWEN_ACC64(0), QWEN_ACC64(64)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),
                   "r"(int(accumulate)), "n"(int(majorB)));
  else
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 "{" QWEN_REGS64 "}, {%64,%65,%66,%67}, %68, p, 1, 1, %70;\n}"
                 : QWEN_ACC16(0), QWEN_ACC16(16), QWEN_ACC16(32), QWEN_ACC16(48)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),
                   "r"(int(accumulate)), "n"(int(majorB)));
}

/// A whole product: D (+)= A B over `16 steps` of k, A in shared memory.
template <int n, int steps, Major majorA, Major majorB>
QWEN_DEVICE void product(float (&d)[n / 2], const Operand<majorA> &a,
                         const Operand<majorB> &b, bool accumulate) {
#pragma unroll
  for (int j = 0; j < steps; ++j)
    wgmma<n, majorA, majorB>(d, a.at(16 * j), b.at(16 * j),
                             accumulate || j > 0);
}
/// As above with A in registers.
template <int n, int steps, Major majorB>
QWEN_DEVICE void product(float (&d)[n / 2], const uint32_t (&a)[steps][4],
                         const Operand<majorB> &b, bool accumulate) {
#pragma unroll
  for (int j = 0; j < steps; ++j)
    wgmma<n, majorB>(d, a[j], b.at(16 * j), accumulate || j > 0);
}

/// 2^x, accurate to about 2 units in the last place; 0 for very small results.
QWEN_DEVICE float exp2Fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_HOPPER_CUH
