//===- Communicator.cpp - One rank, and what all communicators share ------===//

#include "runtime/collectives/Communicator.h"

#include <algorithm>
#include <cstring>
#include <string_view>
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
  auto length = static_cast<int64_t>(mine.size());
  std::vector<int64_t> lengths(static_cast<size_t>(size()));
  QWEN_RETURN_IF_ERROR(allGather(&length, lengths.data(), sizeof(length)));
  for (int from = 0; from < size(); ++from) {
    int64_t bytes = lengths[static_cast<size_t>(from)];
    if (bytes == 0)
      continue;
    std::string text = from == rank() ? mine : std::string(size_t(bytes), '\0');
    QWEN_RETURN_IF_ERROR(broadcast(text.data(), bytes, from));
    return text;
  }
  return std::string();
}

/// True for "rank 3: ...", an error that was agreed on before.
static bool namesRank(std::string_view message) {
  constexpr std::string_view prefix = "rank ";
  if (!message.starts_with(prefix))
    return false;
  message.remove_prefix(prefix.size());
  size_t digits = message.find_first_not_of("0123456789");
  return digits != 0 && digits != message.npos &&
         message.substr(digits).starts_with(": ");
}

Status Communicator::agree(const Status &mine) {
  if (size() == 1)
    return mine;
  std::string self = fmt::format("rank {}: ", rank());
  // The code goes before the text, as a character.
  std::string text;
  if (!mine.ok())
    text = fmt::format("{}{}{}",
                       static_cast<char>('0' + static_cast<int>(mine.code())),
                       namesRank(mine.message()) ? "" : self, mine.message());
  QWEN_ASSIGN_OR_RETURN(std::string first, firstText(text));
  if (first.empty())
    return okStatus();
  auto code = static_cast<StatusCode>(first.front() - '0');
  first.erase(0, first.substr(1).starts_with(self) ? 1 + self.size() : 1);
  agreed = first;
  return Status(code, first);
}

bool Communicator::isAgreed(const Status &error) const {
  // Callers may have said before it what they were doing.
  return !error.ok() && !agreed.empty() && error.message().ends_with(agreed);
}
