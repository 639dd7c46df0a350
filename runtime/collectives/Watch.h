//===- Watch.h - Finds ranks that died, hang or failed ---------*- C++ -*-===//
//
// Every rank has a thread with a TCP connection to rank 0 and tells it twice a
// second or so that it lives, at which step, and whether it gets on. Rank 0
// tells the others when one is lost; where rank 0 is lost, they see it
// themselves. A closed connection is the death of a process, noticed at once;
// silence and a launch that does not end are noticed after the time-out.
//
// Independent of what carries the collective operations, which may wait for a
// lost rank forever.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_COLLECTIVES_WATCH_H
#define QWEN_RUNTIME_COLLECTIVES_WATCH_H

#include "runtime/collectives/Communicator.h"

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace qwen {

/// Where rank 0 listens; plain data, to be sent to the other ranks.
struct WatchAddress {
  uint64_t token = 0; ///< shows that two processes mean the same run
  uint16_t port = 0;
  uint16_t addresses = 0;             ///< used entries of `ipv4`
  std::array<uint32_t, 14> ipv4 = {}; ///< in network byte order
};

class Watch {
public:
  /// For rank 0. With `oneMachine` nobody else can connect.
  static StatusOr<std::unique_ptr<Watch>>
  listen(int ranks, bool oneMachine, const CommunicatorOptions &options);
  /// For the other ranks; connects to rank 0, which need not be waiting yet.
  static StatusOr<std::unique_ptr<Watch>>
  connect(int rank, int ranks, const WatchAddress &address,
          const CommunicatorOptions &options);
  ~Watch();

  const WatchAddress &address() const { return place; }
  /// Starts watching; rank 0 waits until all ranks are connected.
  Status start();

  void note(Activity activity);
  /// As Communicator::noteArrivals.
  void noteArrivals(uint64_t count) {
    mine.arrivals.store(count, std::memory_order_relaxed);
  }
  void enterStep(int64_t step);
  Activity activity() const { return Activity(mine.activity.load()); }

  /// Tells the others that this rank ends by an error. Where another rank was
  /// lost first, `onLostRank` ends this process instead.
  void fail(const std::string &text);
  /// Waits until `onLostRank` ends this process, for some time: an operation
  /// failed, which is what the loss of another rank looks like.
  void awaitLoss(std::chrono::milliseconds time);
  /// Ends the watch; every rank must be about to do the same.
  void leave();

private:
  using Clock = std::chrono::steady_clock;
  struct Frame;
  /// What is known of a rank.
  struct Peer {
    int descriptor = -1;
    std::string received; ///< a frame's beginning
    std::atomic<bool> left{false};
    int64_t step = 0;
    uint64_t ticks = 0;
    uint64_t arrivals = 0;
    Activity activity = Activity::Other;
    Clock::time_point heard, gotOn;
  };

  Watch(int rank, int ranks, const CommunicatorOptions &options);
  Status open(bool oneMachine);
  Status accept();
  Status join(const WatchAddress &address);
  Frame frame(uint32_t kind) const;
  void send(Peer &peer, const Frame &frame);
  void sendToAll(const Frame &frame);
  void work();
  void waitForNews();
  void read(int rank);
  void take(int rank, const Frame &frame);
  void noteOwn(Clock::time_point now);
  void checkTimes(Clock::time_point now);
  void checkProgress(Clock::time_point now);
  void loseSlowest();
  void lose(int rank, const std::string &reason);
  void finishWith(const std::string &line);
  void awaitPeersEnd();

  int rank;
  Clock::duration timeout, interval;
  std::function<void(const std::string &)> onLostRank;
  WatchAddress place;
  int listening = -1, wake = -1;
  /// Rank 0: all ranks by number, itself without a connection. Others: rank 0
  /// alone.
  std::vector<Peer> peers;
  Clock::time_point awake; ///< when the thread last looked
  std::mutex sending;
  struct {
    std::atomic<int64_t> step{0};
    std::atomic<uint64_t> ticks{0}, arrivals{0};
    std::atomic<int> activity{int(Activity::Other)};
  } mine;
  std::atomic<bool> stopping{false}, acknowledged{false};
  std::atomic<bool> ended{false}; ///< an end of this process was decided
  std::thread thread;
};

} // namespace qwen

#endif // QWEN_RUNTIME_COLLECTIVES_WATCH_H
