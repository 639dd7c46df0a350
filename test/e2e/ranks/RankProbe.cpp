//===- RankProbe.cpp - A rank that does what a test wants -----------------===//
//
// mpirun -n N RankProbe MODE: "collectives" checks every operation of the
// communicator; the other modes make the last rank go wrong in step 7 while the
// others wait for it.
//
//===----------------------------------------------------------------------===//

#include "runtime/collectives/Communicator.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace qwen;

namespace {

/// Element i of rank r; large ones beside small ones, so that the order of a
/// float32 sum would show.
float term(int rank, int64_t i) {
  return float(rank % 2 ? 1 : 1 << 20) / float(i % 977 + 3 + rank);
}

Status wrong(const char *what, int64_t at) {
  return makeError(StatusCode::Internal, "{}: wrong at element {}", what, at);
}

Status checkAllGather(Communicator &ranks, int64_t bytes) {
  std::vector<uint8_t> mine(size_t(bytes), uint8_t(ranks.rank() + 1));
  mine.back() = uint8_t(100 + ranks.rank());
  std::vector<uint8_t> all(size_t(bytes * ranks.size()));
  QWEN_RETURN_IF_ERROR(ranks.allGather(mine.data(), all.data(), bytes));
  for (int64_t i = 0; i < int64_t(all.size()); ++i) {
    auto from = int(i / bytes);
    if (all[size_t(i)] != (i % bytes == bytes - 1 ? 100 + from : from + 1))
      return wrong("allGather", i);
  }
  return okStatus();
}

Status checkReduceScatter(Communicator &ranks, int64_t elements,
                          bool accumulate) {
  std::vector<float> all(size_t(elements * ranks.size()));
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = term(ranks.rank(), int64_t(i));
  std::vector<float> mine(size_t(elements), 0.5f);
  QWEN_RETURN_IF_ERROR(
      ranks.reduceScatter(all.data(), mine.data(), elements, accumulate));
  for (int64_t i = 0; i < elements; ++i) {
    double sum = accumulate ? 0.5 : 0;
    for (int r = 0; r < ranks.size(); ++r)
      sum += double(term(r, ranks.rank() * elements + i));
    if (mine[size_t(i)] != float(sum))
      return wrong("reduceScatter", i);
  }
  return okStatus();
}

Status checkOthers(Communicator &ranks) {
  int last = ranks.size() - 1;
  std::vector<int> values(1000);
  std::iota(values.begin(), values.end(), ranks.rank() == last ? 5 : 0);
  QWEN_RETURN_IF_ERROR(ranks.broadcast(values.data(), 4000, last));
  if (values[999] != 1004)
    return wrong("broadcast", 999);
  QWEN_ASSIGN_OR_RETURN(double sum, ranks.sum(1.0 / (ranks.rank() + 3)));
  double expected = 0;
  for (int r = 0; r <= last; ++r)
    expected += 1.0 / (r + 3);
  if (sum != expected)
    return wrong("sum", 0);
  QWEN_ASSIGN_OR_RETURN(bool any, ranks.any(ranks.rank() == last));
  QWEN_ASSIGN_OR_RETURN(bool none, ranks.any(false));
  if (!any || none)
    return wrong("any", 0);
  QWEN_ASSIGN_OR_RETURN(
      std::string text,
      ranks.firstText(ranks.rank() > 0 ? std::to_string(ranks.rank()) : ""));
  return text == "1" ? okStatus() : wrong("firstText", 0);
}

Status checkCollectives(Communicator &ranks) {
  // The last sizes take several pieces, where they are large.
  bool isLarge = ranks.size() == 2;
  for (int64_t bytes : {1, 8, 4096, isLarge ? 70'000'001 : 7})
    QWEN_RETURN_IF_ERROR(checkAllGather(ranks, bytes));
  for (int64_t elements : {0, 1, 64, 1000, isLarge ? 5'000'000 : 7})
    for (bool accumulate : {false, true})
      QWEN_RETURN_IF_ERROR(checkReduceScatter(ranks, elements, accumulate));
  QWEN_RETURN_IF_ERROR(checkOthers(ranks));
  return ranks.barrier();
}

/// Waits for its GPU, which comes to no further operation with other ranks.
[[noreturn]] void waitForGpu(Communicator &ranks, uint64_t arrivals) {
  ranks.noteArrivals(arrivals);
  ranks.note(Activity::Waiting);
  for (;;)
    pause();
}

/// The last rank goes wrong; the first one waits for it.
Status goWrong(Communicator &ranks, std::string_view mode) {
  for (int step = 1; step <= 7; ++step) {
    QWEN_RETURN_IF_ERROR(ranks.barrier());
    ranks.enterStep(step);
    ranks.note(Activity::Launching);
  }
  bool isFirst = mode.starts_with("first-");
  if (isFirst)
    mode.remove_prefix(6);
  bool isWrong = ranks.rank() == (isFirst ? 0 : ranks.size() - 1);
  if (mode == "gpu")
    waitForGpu(ranks, isWrong ? 41 : 42);
  if (mode == "gpus")
    waitForGpu(ranks, 42);
  if (isWrong) {
    if (mode == "die")
      raise(SIGKILL);
    if (mode == "stop")
      raise(SIGSTOP);
    if (mode == "fail")
      return makeError(StatusCode::DataLoss, "spoilt milk");
    // "hang": signs of life, but no launch ends.
    std::this_thread::sleep_for(std::chrono::hours(1));
  }
  return ranks.barrier();
}

} // namespace

int main(int argc, char **argv) {
  // The launcher ends all ranks where one has ended: the others shall have the
  // time to say what they saw.
  std::signal(SIGTERM, SIG_IGN);
  CommunicatorOptions options;
  options.rankTimeout = argc > 2 ? std::atof(argv[2]) : 30;
  options.onLostRank = [](const std::string &line) {
    std::fprintf(stderr, "survivor: %s\n", line.c_str());
    _exit(3);
  };
  auto joined = joinRanks(options);
  if (!joined.ok()) {
    std::fprintf(stderr, "%s\n", joined.status().message().c_str());
    return 1;
  }
  Communicator &ranks = *joined ? **joined : selfCommunicator();
  Status status = std::string_view(argv[1]) == "collectives"
                      ? checkCollectives(ranks)
                      : goWrong(ranks, argv[1]);
  if (status.ok())
    status = ranks.leave();
  if (status.ok()) {
    std::printf("rank %d of %d: good\n", ranks.rank(), ranks.size());
    return 0;
  }
  ranks.fail(status);
  std::fprintf(stderr, "rank %d: %s\n", ranks.rank(), status.message().c_str());
  return 1;
}
