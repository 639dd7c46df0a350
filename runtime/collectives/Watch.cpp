//===- Watch.cpp - Finds ranks that died, hang or failed ------------------===//
//
// Frames of one size on non-blocking sockets. A frame that does not fit a
// socket's buffer is dropped: its reader has not read for long.
//
//===----------------------------------------------------------------------===//

#include "runtime/collectives/Watch.h"
#include "runtime/collectives/WatchFrame.h"
#include "runtime/support/File.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace qwen;

Watch::Watch(int rank, int ranks, const CommunicatorOptions &options)
    : rank(rank), onLostRank(options.onLostRank), peers(rank ? 1 : ranks) {
  using Seconds = std::chrono::duration<double>;
  timeout =
      std::chrono::duration_cast<Clock::duration>(Seconds(options.rankTimeout));
  interval =
      std::min<Clock::duration>(timeout / 8, std::chrono::milliseconds(500));
}

Watch::~Watch() {
  stopping = true;
  if (wake >= 0)
    (void)eventfd_write(wake, 1);
  if (thread.joinable())
    thread.join();
  for (Peer &peer : peers)
    if (peer.descriptor >= 0)
      close(peer.descriptor);
  for (int descriptor : {listening, wake})
    if (descriptor >= 0)
      close(descriptor);
}

Status Watch::start() {
  if (rank == 0)
    QWEN_RETURN_IF_ERROR(accept());
  wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0)
    return makeError(StatusCode::IoError, "cannot watch the ranks: {}",
                     systemError(errno));
  for (Peer &peer : peers)
    peer.heard = peer.gotOn = Clock::now();
  thread = std::thread([this] { work(); });
  return okStatus();
}

void Watch::note(Activity activity) {
  mine.activity.store(int(activity), std::memory_order_relaxed);
  mine.ticks.fetch_add(1, std::memory_order_relaxed);
}

/// The step goes out at once: a rank that dies now died in this step.
void Watch::enterStep(int64_t step) {
  mine.step = step;
  sendToAll(frame(Frame::Alive));
}

Watch::Frame Watch::frame(uint32_t kind) const {
  Frame result;
  result.kind = kind;
  result.rank = rank;
  result.step = mine.step;
  result.ticks = mine.ticks;
  result.arrivals = mine.arrivals;
  result.activity = mine.activity;
  return result;
}

void Watch::send(Peer &peer, const Frame &frame) {
  std::lock_guard lock(sending);
  if (peer.descriptor < 0 || peer.left)
    return;
  ssize_t sent = ::send(peer.descriptor, &frame, sizeof(frame),
                        MSG_DONTWAIT | MSG_NOSIGNAL);
  // A part of a frame would spoil what follows.
  if (sent >= 0 && sent < ssize_t(sizeof(frame)))
    shutdown(peer.descriptor, SHUT_WR);
}

void Watch::sendToAll(const Frame &frame) {
  for (Peer &peer : peers)
    send(peer, frame);
}

/// The thread: reads, tells and looks at the clock.
void Watch::work() {
  Clock::time_point told = awake = Clock::now();
  while (!stopping) {
    waitForNews();
    Clock::time_point now = Clock::now();
    // This process was stopped for a while; the others may have been, too.
    if (now - awake > timeout / 2)
      for (Peer &peer : peers)
        peer.heard = peer.gotOn = now;
    awake = now;
    if (now - told >= interval) {
      sendToAll(frame(Frame::Alive));
      told = now;
    }
    noteOwn(now);
    checkTimes(now);
  }
}

void Watch::waitForNews() {
  std::vector<pollfd> waiting = {{wake, POLLIN, 0}};
  for (const Peer &peer : peers)
    // poll passes over negative descriptors.
    waiting.push_back({peer.left ? -1 : peer.descriptor, POLLIN, 0});
  auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(interval).count();
  if (poll(waiting.data(), waiting.size(), int(milliseconds)) <= 0)
    return;
  for (size_t i = 0; i < peers.size() && !stopping; ++i)
    if (waiting[i + 1].revents != 0)
      read(int(i));
}

static std::string seconds(std::chrono::steady_clock::duration time) {
  return fmt::format("{:.3g} s", std::chrono::duration<double>(time).count());
}

/// Takes what a rank sent; a connection that ended is a process that did.
void Watch::read(int from) {
  Peer &peer = peers[size_t(from)];
  while (!peer.left && !stopping) {
    std::array<char, 4 * sizeof(Frame)> bytes;
    ssize_t count =
        recv(peer.descriptor, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    if (count <= 0 && Clock::now() - awake > timeout)
      return finishWith(fmt::format("rank {} was stopped for a while in step "
                                    "{}, and the others ended without it",
                                    rank, mine.step.load()));
    // The launcher may have ended what another rank had missed for long.
    if (auto silence = Clock::now() - peer.heard;
        count <= 0 && silence > timeout / 2)
      return lose(from,
                  fmt::format("no sign of life for {}, then its process ended",
                              seconds(silence)));
    if (count <= 0)
      return lose(from, "its process ended");
    peer.received.append(bytes.data(), size_t(count));
    while (peer.received.size() >= sizeof(Frame)) {
      Frame frame;
      std::memcpy(&frame, peer.received.data(), sizeof(frame));
      peer.received.erase(0, sizeof(frame));
      frame.text.back() = 0;
      take(from, frame);
    }
  }
}

void Watch::take(int from, const Frame &frame) {
  Peer &peer = peers[size_t(from)];
  Clock::time_point now = Clock::now();
  peer.heard = now;
  switch (frame.kind) {
  case Frame::Alive:
    if (frame.ticks != peer.ticks)
      peer.gotOn = now;
    peer.step = frame.step;
    peer.ticks = frame.ticks;
    peer.arrivals = frame.arrivals;
    peer.activity = Activity(frame.activity);
    return;
  case Frame::Failed:
    peer.step = frame.step;
    return lose(from, frame.text.data());
  case Frame::Lost:
    // What this rank itself told.
    if (frame.rank == rank && ended)
      acknowledged = true;
    else
      finishWith(frame.text.data());
    return;
  case Frame::Leave:
    peer.left = true;
    return;
  default:
    return lose(from, "it sent something else than signs of life");
  }
}

/// Rank 0 is one of its own peers.
void Watch::noteOwn(Clock::time_point now) {
  if (rank != 0)
    return;
  Peer &own = peers.front();
  if (own.ticks != mine.ticks)
    own.gotOn = now;
  own.heard = now;
  own.step = mine.step;
  own.ticks = mine.ticks;
  own.arrivals = mine.arrivals;
  own.activity = activity();
}

void Watch::checkTimes(Clock::time_point now) {
  for (size_t i = 0; i < peers.size(); ++i)
    if (!peers[i].left && now - peers[i].heard > timeout)
      return lose(int(i), fmt::format("no sign of life for {} (--rank-timeout)",
                                      seconds(timeout)));
  if (rank == 0)
    checkProgress(now);
}

/// Finds a rank that lives but does not get on.
void Watch::checkProgress(Clock::time_point now) {
  bool allWait = true;
  for (size_t i = 0; i < peers.size(); ++i) {
    const Peer &peer = peers[i];
    bool getsOn = peer.left || now - peer.gotOn <= timeout;
    allWait &= !getsOn && peer.activity == Activity::Waiting;
    if (!getsOn && peer.activity == Activity::Launching)
      return lose(int(i), fmt::format("it hangs: no launch ended for {} "
                                      "(--rank-timeout)",
                                      seconds(timeout)));
  }
  if (allWait)
    loseSlowest();
}

/// All ranks wait: for the one whose GPU has come to fewer collective
/// operations than the others', if there is one.
void Watch::loseSlowest() {
  auto [least, most] = std::minmax_element(
      peers.begin(), peers.end(),
      [](const Peer &a, const Peer &b) { return a.arrivals < b.arrivals; });
  if (least->arrivals < most->arrivals)
    return lose(int(least - peers.begin()),
                fmt::format("its GPU hangs: the others have waited for it for "
                            "{} (--rank-timeout)",
                            seconds(timeout)));
  lose(0, fmt::format("all ranks wait for {}, for each other or for their "
                      "GPUs: the network between them is broken, or all GPUs "
                      "hang (--rank-timeout)",
                      seconds(timeout)));
}

/// "rank 2 was lost in step 17: its process ended".
static std::string describeLoss(int lost, int64_t step,
                                const std::string &reason) {
  std::string when =
      step > 0 ? fmt::format("in step {}", step) : "before the first step";
  return fmt::format("rank {} was lost {}: {}", lost, when, reason);
}

/// Tells the other ranks, if this is rank 0, and ends this process.
void Watch::lose(int lost, const std::string &reason) {
  Peer &peer = peers[size_t(lost)];
  peer.left = true;
  std::string line = describeLoss(
      lost, rank == 0 ? std::max(peer.step, mine.step.load()) : peer.step,
      reason);
  if (rank == 0) {
    Frame told = frame(Frame::Lost);
    told.rank = lost;
    line.copy(told.text.data(), told.text.size() - 1);
    // The one that failed waits for this as well.
    peer.left = false;
    sendToAll(told);
    peer.left = true;
  }
  finishWith(line);
}

void Watch::finishWith(const std::string &line) {
  stopping = true;
  if (ended.exchange(true) || !onLostRank)
    return;
  if (rank == 0)
    awaitPeersEnd();
  onLostRank(line);
}

/// What rank 0 has told the others arrives: a connection that is closed with
/// unread frames in it is reset, and what was sent may be lost. They end, too.
void Watch::awaitPeersEnd() {
  Clock::time_point end = Clock::now() + std::chrono::seconds(1);
  for (Peer &peer : peers)
    if (peer.descriptor >= 0)
      shutdown(peer.descriptor, SHUT_WR);
  for (Peer &peer : peers)
    while (peer.descriptor >= 0 && Clock::now() < end) {
      std::array<char, sizeof(Frame)> unread;
      ssize_t count =
          recv(peer.descriptor, unread.data(), unread.size(), MSG_DONTWAIT);
      if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
        break;
      if (count < 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

void Watch::fail(const std::string &text) {
  if (ended.exchange(true))
    return awaitLoss(std::chrono::seconds(10)); // the thread is about to end us
  Frame failed = frame(rank == 0 ? Frame::Lost : Frame::Failed);
  std::string line = rank == 0 ? describeLoss(0, mine.step.load(), text) : text;
  line.copy(failed.text.data(), failed.text.size() - 1);
  sendToAll(failed);
  if (rank == 0) {
    stopping = true;
    (void)eventfd_write(wake, 1);
    thread.join();
    return awaitPeersEnd();
  }
  // A connection that is closed with unread frames in it may lose this one.
  for (int i = 0; i < 100 && !acknowledged && !stopping; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

void Watch::awaitLoss(std::chrono::milliseconds time) {
  std::this_thread::sleep_for(time);
}

void Watch::leave() {
  sendToAll(frame(Frame::Leave));
  stopping = true;
  (void)eventfd_write(wake, 1);
  thread.join();
}
