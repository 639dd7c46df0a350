//===- CpuCeilings.cpp - Rates of the CPU's copy and matrix product -------===//

#include "runtime/profile/Ceilings.h"

#include "qwen/Plan/Workspace.h"
#include "runtime/kernels/cpu/Kernels.h"
#include "runtime/support/Arena.h"

#include <algorithm>
#include <chrono>
#include <cstring>

using namespace qwen;

/// The shortest of a few launches, in seconds.
template <typename Args>
static StatusOr<double> shortestLaunch(const Args &args) {
  QWEN_ASSIGN_OR_RETURN(Arena workspace,
                        Arena::allocate(cpuWorkspaceBytes(args), true));
  double shortest = 0;
  for (int i = 0; i < 5; ++i) {
    using namespace std::chrono;
    auto start = steady_clock::now();
    cpu::launch(args, {workspace.bytes()});
    duration<double> taken = steady_clock::now() - start;
    shortest = i == 0 ? taken.count() : std::min(shortest, taken.count());
  }
  return shortest;
}

static Buffer matrix(DType dtype, int64_t size, void *data) {
  Buffer view;
  view.dtype = dtype;
  view.rank = 2;
  view.shape = {size, size};
  view.strides = {size, 1};
  view.data = data;
  return view;
}

StatusOr<Ceilings> qwen::measureCpuCeilings(DType dtype) {
  // Larger than caches; products large enough that their edges do not count.
  constexpr int64_t copied = 8192, multiplied = 1024;
  constexpr int64_t bytes = copied * copied * 4;
  QWEN_ASSIGN_OR_RETURN(Arena from, Arena::allocate(bytes, true));
  QWEN_ASSIGN_OR_RETURN(Arena to, Arena::allocate(bytes, true));
  // Pages that nobody wrote share one page of zeros.
  std::memset(from.data(), 0, size_t(bytes));
  CopyArgs copy{matrix(DType::F32, copied, from.data()),
                matrix(DType::F32, copied, to.data())};
  GemmArgs product{};
  product.a = matrix(dtype, multiplied, from.data());
  product.b = matrix(dtype, multiplied, from.data());
  product.c = matrix(dtype, multiplied, to.data());
  QWEN_ASSIGN_OR_RETURN(double copySeconds, shortestLaunch(copy));
  QWEN_ASSIGN_OR_RETURN(double productSeconds, shortestLaunch(product));
  double cube = double(multiplied) * multiplied * multiplied;
  return Ceilings{2 * cube / productSeconds, 2.0 * bytes / copySeconds,
                  fmt::format("a {} product of {} cubed, and a copy of {} MiB",
                              dtypeName(dtype), multiplied, bytes >> 20)};
}
