//===- SelfcheckCudaTest.cpp - The self-check's kernels on a GPU ----------===//
//
// The kernels of the GPU with the heads of the 27B pass the self-check, and one
// that is a little off does not.
//
//===----------------------------------------------------------------------===//

#include "runtime/profile/Ceilings.h"
#include "runtime/selfcheck/HostTensor.h"
#include "runtime/selfcheck/OperatorChecks.h"
#include "test/parity/cuda/RequireGpu.h"

#include <gtest/gtest.h>

using namespace qwen;

namespace {

template <typename B> B typed(DType dtype, std::vector<int64_t> shape) {
  B buffer;
  static_cast<BufferType &>(buffer) = contiguousType(dtype, shape);
  return buffer;
}

OperatorShapes shapesOf27B() {
  constexpr int64_t T = 64;
  constexpr DType half = DType::BF16;
  auto in = [](std::vector<int64_t> shape) {
    return typed<ConstBuffer>(half, shape);
  };
  auto out = [](std::vector<int64_t> shape) {
    return typed<Buffer>(half, shape);
  };
  auto wide = [](std::vector<int64_t> shape) {
    return typed<Buffer>(DType::F32, shape);
  };
  ConstBuffer cu = typed<ConstBuffer>(DType::I32, {9});
  std::vector<int64_t> key = {T, 16, 128}, value = {T, 48, 128}, gate = {T, 48};
  double scale = 0.08838834764831845, eps = 1e-6;
  OperatorShapes shapes;
  shapes.gatedDelta =
      GatedDeltaArgs{in(key), in(key),    in(value), wide(gate), in(gate),
                     cu,      out(value), scale,     eps,        64};
  shapes.gatedDeltaGrad = GatedDeltaGradArgs{
      in(key),    in(key),   in(value), wide(gate), in(gate),
      in(value),  cu,        out(key),  out(key),   out(value),
      wide(gate), out(gate), scale,     eps,        64};
  std::vector<int64_t> query = {T, 24, 256}, keys = {T, 4, 256}, lse = {T, 24};
  shapes.attention = AttentionArgs{in(query),  in(keys),  in(keys), cu,
                                   out(query), wide(lse), 0.0625};
  shapes.attentionGrad = AttentionGradArgs{
      in(query), in(keys),   in(keys),  in(query), wide(lse), in(query),
      cu,        out(query), out(keys), out(keys), 0.0625};
  std::vector<int64_t> rows = {T, 10240}, taps = {10240, 1, 4};
  shapes.conv = CausalConv1dArgs{in(rows), in(taps), cu, out(rows)};
  shapes.convGrad = CausalConv1dGradArgs{in(rows),  in(taps),   in(rows), cu,
                                         out(rows), wide(taps), false};
  std::vector<int64_t> hidden = {T, 5120}, classes = {1024, 5120}, tokens = {T};
  ConstBuffer labels = typed<ConstBuffer>(DType::I32, tokens);
  shapes.loss = LinearCrossEntropyArgs{in(hidden),   in(classes), labels,
                                       wide(tokens), -100,        {}};
  shapes.lossGrad = LinearCrossEntropyGradArgs{in(hidden),
                                               in(classes),
                                               labels,
                                               wide(tokens),
                                               wide(tokens),
                                               out(hidden),
                                               wide(classes),
                                               -100,
                                               false,
                                               {},
                                               {},
                                               {}};
  return shapes;
}

/// The GPU's kernels with one gradient off by 3 %.
class SlightlyWrong final : public KernelRunner {
public:
  explicit SlightlyWrong(KernelRunner &gpu) : gpu(gpu) {}
  const char *name() const override { return gpu.name(); }
#define QWEN_DEFINE_LAUNCH(Name)                                               \
  Status launch(const Name##Args &args) override {                             \
    QWEN_RETURN_IF_ERROR(gpu.launch(args));                                    \
    disturb(args);                                                             \
    return okStatus();                                                         \
  }
  QWEN_CHECKED_KERNELS(QWEN_DEFINE_LAUNCH)
#undef QWEN_DEFINE_LAUNCH

private:
  template <typename Args> void disturb(const Args &args) {
    if constexpr (std::is_same_v<Args, GatedDeltaGradArgs>)
      for (int64_t i = 0; i < args.dg.elements(); ++i)
        args.dg.template as<float>()[i] *= 1.03f;
  }
  KernelRunner &gpu;
};

} // namespace

TEST(SelfcheckCudaTest, KernelsOfTheGpuPass) {
  auto gpu = createCudaKernelRunner();
  ASSERT_TRUE(gpu.ok()) << gpu.status().message();
  auto rows = checkAgainstCpu(shapesOf27B(), **gpu, {});
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  fmt::print("{}", checkTable(*rows));
  EXPECT_EQ(countMisses(*rows), 0);
  EXPECT_EQ(countCompared(*rows), 18);
}

TEST(SelfcheckCudaTest, ASlightlyWrongGradientDoesNot) {
  auto gpu = createCudaKernelRunner();
  ASSERT_TRUE(gpu.ok()) << gpu.status().message();
  SlightlyWrong wrong(**gpu);
  auto rows = checkAgainstCpu(shapesOf27B(), wrong, {.packs = 1});
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  EXPECT_EQ(countMisses(*rows), 1) << checkTable(*rows);
  for (const CheckRow &row : *rows)
    EXPECT_EQ(row.outcome == CheckRow::Outcome::Missed,
              row.check == "gated_delta_grad dg")
        << row.check;
}

TEST(SelfcheckCudaTest, CeilingsAreMeasured) {
  auto ceilings = measureCeilings("sm_90a", DType::BF16);
  ASSERT_TRUE(ceilings.ok()) << ceilings.status().message();
  fmt::print("{:.4g} TFLOP/s, {:.4g} TB/s: {}\n", ceilings->flops * 1e-12,
             ceilings->bytes * 1e-12, ceilings->how);
  EXPECT_GT(ceilings->flops, 0);
  EXPECT_GT(ceilings->bytes, 0);
}

int main(int argc, char **argv) {
  cudatest::requireGpu();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
