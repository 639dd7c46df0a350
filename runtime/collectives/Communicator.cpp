//===- Communicator.cpp - One rank, and what all communicators share ------===//

#include "runtime/collectives/Communicator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

using namespace qwen;

namespace {

/// Alone, a collective operation is a copy.
class SelfCommunicator final : public Communicator {
public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Status barrier() override { return okStatus(); }
  Status allGather(const void *mine, void *all, int64_t bytes) override {
    std::memcpy(all, mine, static_cast<size_t>(bytes));
    return okStatus();
  }
  Status reduceScatter(const float *all, float *mine, int64_t elements,
                       bool accumulate) override {
    if (accumulate)
      std::transform(mine, mine + elements, all, mine, std::plus<float>());
    else
      std::copy_n(all, elements, mine);
    return okStatus();
  }
  Status broadcast(void *data, int64_t bytes, int root) override {
    return okStatus();
  }
};

} // namespace

Communicator &qwen::selfCommunicator() {
  static SelfCommunicator self;
  return self;
}

StatusOr<double> Communicator::sum(double mine) {
  std::vector<double> all(static_cast<size_t>(size()));
  QWEN_RETURN_IF_ERROR(allGather(&mine, all.data(), sizeof(mine)));
  double total = all.front();
  for (size_t i = 1; i < all.size(); ++i)
    total += all[i];
  return total;
}

StatusOr<bool> Communicator::any(bool mine) {
  if (size() == 1)
    return mine;
  auto flag = static_cast<uint8_t>(mine);
  std::vector<uint8_t> all(static_cast<size_t>(size()));
  QWEN_RETURN_IF_ERROR(allGather(&flag, all.data(), 1));
  return std::any_of(all.begin(), all.end(), [](uint8_t f) { return f != 0; });
}

StatusOr<std::string> Communicator::firstText(const std::string &mine) {
  if (size() == 1)
    return mine;
  constexpr size_t longest = 1024;
  using Text = std::array<char, longest>; // ends with 0
  Text text{};
  mine.copy(text.data(), longest - 1);
  std::vector<Text> all(static_cast<size_t>(size()));
  QWEN_RETURN_IF_ERROR(allGather(&text, all.data(), longest));
  for (const Text &candidate : all)
    if (candidate.front() != 0)
      return std::string(candidate.data());
  return std::string();
}
