//===- ThreadRanks.h - Ranks that are threads of a test --------*- C++ -*-===//

#ifndef QWEN_TEST_UNIT_RUNTIME_THREADRANKS_H
#define QWEN_TEST_UNIT_RUNTIME_THREADRANKS_H

#include "runtime/collectives/Communicator.h"

#include <barrier>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace qwen {

/// A group whose members exchange what they have in memory.
class ThreadRanks {
public:
  explicit ThreadRanks(int size)
      : size(size), meeting(size), shown(size_t(size)) {}

  /// Runs `body` on every rank at the same time; the results, by rank.
  std::vector<Status> run(const std::function<Status(Communicator &)> &body) {
    std::vector<Status> results(static_cast<size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] {
        Member member(*this, rank);
        results[size_t(rank)] = body(member);
      });
    for (std::thread &thread : threads)
      thread.join();
    return results;
  }

  /// Called by every rank before each operation.
  std::function<void(int rank)> beforeOperation = [](int) {};

private:
  class Member final : public Communicator {
  public:
    Member(ThreadRanks &group, int number) : group(group), number(number) {}

    int rank() const override { return number; }
    int size() const override { return group.size; }
    Status barrier() override {
      group.beforeOperation(number);
      group.meeting.arrive_and_wait();
      return okStatus();
    }
    Status allGather(const void *mine, void *all, int64_t bytes) override {
      exchange(mine, [&] {
        for (int from = 0; from < group.size; ++from)
          std::memcpy(static_cast<std::byte *>(all) + from * bytes,
                      group.shown[size_t(from)], size_t(bytes));
      });
      return okStatus();
    }
    Status reduceScatter(const float *all, float *mine, int64_t elements,
                         bool accumulate) override {
      exchange(all, [&] {
        for (int64_t i = 0; i < elements; ++i) {
          double sum = accumulate ? double(mine[i]) : 0.0;
          for (const void *from : group.shown)
            sum +=
                double(static_cast<const float *>(from)[number * elements + i]);
          mine[i] = float(sum);
        }
      });
      return okStatus();
    }
    Status broadcast(void *data, int64_t bytes, int root) override {
      exchange(data, [&] {
        if (number != root)
          std::memcpy(data, group.shown[size_t(root)], size_t(bytes));
      });
      return okStatus();
    }

  private:
    /// `use` runs while the others' memory is shown and does not change.
    void exchange(const void *mine, const std::function<void()> &use) {
      group.beforeOperation(number);
      group.shown[size_t(number)] = mine;
      group.meeting.arrive_and_wait();
      use();
      group.meeting.arrive_and_wait();
    }

    ThreadRanks &group;
    int number;
  };

  int size;
  std::barrier<> meeting;
  std::vector<const void *> shown;
};

} // namespace qwen

#endif // QWEN_TEST_UNIT_RUNTIME_THREADRANKS_H
