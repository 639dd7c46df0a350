//===- SelfcheckCudaTest.cpp - The self-check's kernels on a GPU ----------===//
//
// The kernels of the GPU with the heads of the 27B pass the self-check, and one
// that is a little off does not.
//
//===----------------------------------------------------------------------===//

#include "runtime/profile/Ceilings.h"
#include "test/parity/cuda/RequireGpu.h"
#include "test/unit/runtime/SampleShapes.h"

#include <gtest/gtest.h>

using namespace qwen;

namespace {

OperatorShapes shapesOf27B() {
  return sampleShapes(DType::BF16, {.keyHeads = 16,
                                    .valueHeads = 48,
                                    .keyDim = 128,
                                    .valueDim = 128,
                                    .queryHeads = 24,
                                    .attentionKeyHeads = 4,
                                    .headDim = 256,
                                    .channels = 10240,
                                    .hidden = 5120,
                                    .classes = 1024,
                                    .slots = 9,
                                    .scale = 0.08838834764831845,
                                    .attentionScale = 0.0625,
                                    .eps = 1e-6});
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
