//===- PlanTarget.cpp - Hostile plans -------------------------------------===//
//
// The input is a plan file. It is read as it is, and again with the kernel
// tables' number and the hash of this build, so that changes get past both.
// What is accepted is printed in full; its launches are run one by one.
//
//===----------------------------------------------------------------------===//

#include "FuzzTarget.h"
#include "PlanLaunch.h"
#include "qwen/Plan/KernelAbi.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanVerifier.h"
#include "tools/qwen-plan/PrintPlan.h"

#include <cstring>

using namespace qwen;

namespace {

/// The FlatBuffer of a plan file, 8-byte aligned.
class Body {
public:
  explicit Body(std::span<const uint8_t> file)
      : size(file.size() - std::min(file.size(), planTrailerBytes)),
        words(size / 8 + 1) {
    if (size > 0)
      std::memcpy(words.data(), file.data(), size);
    if (isSound())
      flatbuffers::GetMutableRoot<flatbuffers::Table>(words.data())
          ->SetField<uint64_t>(plan::Plan::VT_KERNEL_ABI, kernelAbiVersion, 0);
  }

  bool isSound() const {
    flatbuffers::Verifier verifier(bytes(), size, 16, 100'000);
    return size >= 8 && plan::VerifyPlanBuffer(verifier);
  }
  std::span<const uint8_t> content() const { return {bytes(), size}; }
  const plan::Plan &plan() const { return *plan::GetPlan(words.data()); }
  /// The file, with a hash that fits.
  std::string file() const {
    std::string text(reinterpret_cast<const char *>(words.data()), size);
    return text + planTrailer(std::as_bytes(std::span(text)));
  }

private:
  const uint8_t *bytes() const {
    return reinterpret_cast<const uint8_t *>(words.data());
  }
  size_t size;
  std::vector<uint64_t> words;
};

StatusOr<Plan> parse(std::span<const uint8_t> file) {
  StatusOr<Plan> plan = Plan::parse(std::as_bytes(file), "plan");
  if (!plan.ok())
    fuzz::expectOneLine(plan.status().message());
  return plan;
}

void print(const Plan &plan) {
  size_t bytes = summaryText(plan).size() + summaryJson(plan).size() +
                 memoryMap(plan).size();
  for (size_t i = 0; i < plan.programs().size(); ++i)
    bytes += launchList(plan, static_cast<int>(i)).size();
  if (bytes == 0)
    fuzz::breakPromise("a plan prints as nothing", "");
}

} // namespace

fuzz::Outcome fuzz::run(std::span<const uint8_t> input) {
  (void)parse(input);
  Body body(input);
  std::string file = body.file();
  StatusOr<Plan> plan =
      parse({reinterpret_cast<const uint8_t *>(file.data()), file.size()});
  if (plan.ok())
    print(*plan);
  if (!body.isSound() || !verifyPlanHeader(body.plan()).ok() ||
      !verifyPlanMemory(body.plan()).ok())
    return Outcome::Hopeless;
  launchSteps(body.content());
  return plan.ok() ? Outcome::Accepted : Outcome::Refused;
}
