//===- WatchConnection.cpp - How the ranks meet ---------------------------===//
//
// Rank 0 listens on a port of the system's choice; its addresses and a random
// token reach the others by other means. A connection without the token is
// closed.
//
//===----------------------------------------------------------------------===//

#include "runtime/collectives/WatchFrame.h"
#include "runtime/support/File.h"

#include <cerrno>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <random>
#include <sys/socket.h>
#include <unistd.h>

using namespace qwen;
using Clock = std::chrono::steady_clock;

static Status socketError(std::string_view action) {
  return makeError(StatusCode::IoError,
                   "cannot {} the watch over the ranks: "
                   "{}",
                   action, systemError(errno));
}

static int newSocket() {
  return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static sockaddr_in socketAddress(uint32_t ipv4, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = ipv4;
  return address;
}

/// Waits for an event of a descriptor until a time.
static bool waitFor(int descriptor, short event, Clock::time_point until) {
  pollfd waiting = {descriptor, event, 0};
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      until - Clock::now());
  return left.count() > 0 && poll(&waiting, 1, int(left.count())) == 1;
}

/// Receives exactly `bytes` bytes until a time.
static bool receive(int descriptor, void *data, size_t bytes,
                    Clock::time_point until) {
  auto *to = static_cast<char *>(data);
  while (bytes > 0) {
    if (!waitFor(descriptor, POLLIN, until))
      return false;
    ssize_t count = recv(descriptor, to, bytes, MSG_DONTWAIT);
    if (count <= 0)
      return false;
    to += count;
    bytes -= size_t(count);
  }
  return true;
}

/// This machine's addresses that others may know it by.
static std::vector<uint32_t> ownAddresses(bool loopback) {
  std::vector<uint32_t> result;
  if (loopback)
    return {htonl(INADDR_LOOPBACK)};
  ifaddrs *list = nullptr;
  if (getifaddrs(&list) != 0)
    return result;
  for (ifaddrs *entry = list; entry; entry = entry->ifa_next)
    if (entry->ifa_addr && entry->ifa_addr->sa_family == AF_INET)
      result.push_back(
          reinterpret_cast<sockaddr_in *>(entry->ifa_addr)->sin_addr.s_addr);
  freeifaddrs(list);
  return result;
}

StatusOr<std::unique_ptr<Watch>>
Watch::listen(int ranks, bool oneMachine, const CommunicatorOptions &options) {
  std::unique_ptr<Watch> watch(new Watch(0, ranks, options));
  QWEN_RETURN_IF_ERROR(watch->open(oneMachine));
  return watch;
}

Status Watch::open(bool oneMachine) {
  listening = newSocket();
  sockaddr_in address =
      socketAddress(oneMachine ? htonl(INADDR_LOOPBACK) : INADDR_ANY, 0);
  socklen_t length = sizeof(address);
  auto *generic = reinterpret_cast<sockaddr *>(&address);
  if (listening < 0 || bind(listening, generic, length) != 0 ||
      ::listen(listening, int(peers.size())) != 0 ||
      getsockname(listening, generic, &length) != 0)
    return socketError("start");
  place.port = ntohs(address.sin_port);
  for (uint32_t own : ownAddresses(oneMachine))
    if (place.addresses < place.ipv4.size())
      place.ipv4[place.addresses++] = own;
  std::random_device random;
  place.token = uint64_t(random()) << 32 | random();
  return okStatus();
}

/// Has all other ranks connect.
Status Watch::accept() {
  Clock::time_point until = Clock::now() + timeout;
  for (size_t missing = peers.size() - 1; missing > 0;) {
    if (!waitFor(listening, POLLIN, until)) {
      for (size_t i = 1; i < peers.size(); ++i)
        if (peers[i].descriptor < 0)
          return makeError(StatusCode::IoError,
                           "rank {} did not connect to rank 0 within {:.3g} s "
                           "(--rank-timeout)",
                           i, std::chrono::duration<double>(timeout).count());
    }
    int descriptor = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    if (descriptor < 0)
      continue;
    Frame hello;
    bool known = receive(descriptor, &hello, sizeof(hello),
                         Clock::now() + std::chrono::seconds(2)) &&
                 hello.kind == Frame::Hello && hello.ticks == place.token &&
                 hello.rank > 0 && size_t(hello.rank) < peers.size() &&
                 peers[size_t(hello.rank)].descriptor < 0;
    if (!known) {
      close(descriptor);
      continue;
    }
    peers[size_t(hello.rank)].descriptor = descriptor;
    send(peers[size_t(hello.rank)], hello);
    --missing;
  }
  return okStatus();
}

StatusOr<std::unique_ptr<Watch>>
Watch::connect(int rank, int ranks, const WatchAddress &address,
               const CommunicatorOptions &options) {
  std::unique_ptr<Watch> watch(new Watch(rank, ranks, options));
  QWEN_RETURN_IF_ERROR(watch->join(address));
  return watch;
}

/// Connects to an address of rank 0; -1 where it does not answer.
static int tryToConnect(uint32_t ipv4, uint16_t port, Clock::time_point until) {
  int descriptor = newSocket();
  if (descriptor < 0)
    return -1;
  // Bounds the connection's making, too.
  timeval limit = {3, 0};
  setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  sockaddr_in address = socketAddress(ipv4, port);
  if (::connect(descriptor, reinterpret_cast<sockaddr *>(&address),
                sizeof(address)) == 0)
    return descriptor;
  close(descriptor);
  return -1;
}

Status Watch::join(const WatchAddress &address) {
  place = address;
  Peer &zero = peers.front();
  Clock::time_point until = Clock::now() + timeout;
  int addresses = std::min<int>(address.addresses, int(address.ipv4.size()));
  for (int i = 0; i < addresses && Clock::now() < until; ++i) {
    int descriptor = tryToConnect(address.ipv4[size_t(i)], address.port, until);
    if (descriptor < 0)
      continue;
    int on = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    zero.descriptor = descriptor;
    Frame hello = frame(Frame::Hello), answer;
    hello.ticks = address.token;
    send(zero, hello);
    if (receive(descriptor, &answer, sizeof(answer), until) &&
        answer.kind == Frame::Hello && answer.ticks == address.token)
      return okStatus();
    close(descriptor);
    zero.descriptor = -1;
  }
  return makeError(StatusCode::IoError,
                   "rank {} cannot connect to rank 0 at any of its {} "
                   "addresses, port {}",
                   rank, addresses, address.port);
}
