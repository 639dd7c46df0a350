//===- Signals.cpp - What stops qwenrun from outside ----------------------===//

#include "Signals.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

using namespace qwen;

static constexpr std::array stopSignals = {SIGINT, SIGTERM, SIGHUP};
static volatile std::sig_atomic_t stopSignal = 0;

/// The little that a handler may do: one write.
static void tell(std::string_view text) {
  [[maybe_unused]] ssize_t written =
      ::write(STDERR_FILENO, text.data(), text.size());
}

static void setHandler(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

static void requestStop(int signal) {
  int error = errno;
  stopSignal = signal;
  for (int each : stopSignals)
    setHandler(each, SIG_DFL, 0);
  tell("qwenrun: stopping after this step; a second signal stops at once\n");
  errno = error;
}

void qwen::claimEnd() {
  static std::atomic_flag claimed;
  if (claimed.test_and_set())
    for (;;)
      ::pause();
}

static void endOnLostFile(int) {
  claimEnd();
  tell("qwenrun: error: a file in use (data or weights) was cut short or its "
       "disk failed\n");
  ::_exit(1);
}

void qwen::openStandardStreams() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF)
      // open() takes the lowest free number, which is this one.
      (void)::open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY);
}

void qwen::reportLostFiles() {
  setHandler(SIGBUS, endOnLostFile, 0);
  // A file larger than allowed is an error of writing it, as a full disk is.
  setHandler(SIGXFSZ, SIG_IGN, 0);
}

void qwen::catchStopSignals(bool ofRanks) {
  for (int signal : stopSignals) {
    struct sigaction before = {};
    ::sigaction(signal, nullptr, &before);
    // nohup asks for SIGHUP to be ignored.
    if (signal != SIGHUP || before.sa_handler != SIG_IGN)
      setHandler(signal, requestStop, SA_RESTART);
  }
  if (ofRanks)
    setHandler(SIGUSR1, requestStop, SA_RESTART);
  setHandler(SIGPIPE, SIG_IGN, 0);
}

void qwen::releaseStopSignals() {
  for (int signal : stopSignals)
    setHandler(signal, SIG_DFL, 0);
}

bool qwen::stopRequested() { return stopSignal != 0; }
