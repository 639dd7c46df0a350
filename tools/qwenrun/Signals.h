//===- Signals.h - What stops qwenrun from outside -------------*- C++ -*-===//

#ifndef QWEN_TOOLS_QWENRUN_SIGNALS_H
#define QWEN_TOOLS_QWENRUN_SIGNALS_H

namespace qwen {

/// Opens /dev/null for a standard stream that was closed by the caller: else
/// the next file would get its number, and the log would go into that file.
void openStandardStreams();

/// A mapped file that somebody cut short, or whose disk failed, ends the
/// process by SIGBUS: this makes it one line and exit status 1. A file that
/// grows above its limit would end it by SIGXFSZ: that is an error of writing.
void reportLostFiles();

/// For a thread that is about to tell why this process ends, and to end it.
/// Returns to the first one; the others wait for the end, as one line is
/// enough.
void claimEnd();

/// From here on SIGINT, SIGTERM and SIGHUP (a closed terminal) ask for a clean
/// stop, a second one ends the process. A reader of the log that is gone does
/// not stop anything. `ofRanks`: one of several ranks, whose launcher kills
/// what it was to stop but passes SIGUSR1 on, which then asks for a clean stop
/// too.
void catchStopSignals(bool ofRanks);

/// These signals end the process again, without a word: it ends anyway.
void releaseStopSignals();

/// True after the first of those signals.
bool stopRequested();

} // namespace qwen

#endif // QWEN_TOOLS_QWENRUN_SIGNALS_H
