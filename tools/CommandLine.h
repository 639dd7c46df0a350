//===- CommandLine.h - Options of the compiler's tools ----------*- C++ -*-===//
//
// LLVM's command line, with the messages of our tools: one line,
// "<tool>: error: <what>", that says which values are allowed.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TOOLS_COMMANDLINE_H
#define QWEN_TOOLS_COMMANDLINE_H

#include "runtime/support/Json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <csignal>
#include <vector>

namespace qwen {

/// The value of an option that is a whole number.
struct Count {
  int64_t value = 0;
  operator int64_t() const { return value; }
};

} // namespace qwen

/// Reads whole numbers of a range.
template <>
class llvm::cl::parser<qwen::Count> : public basic_parser<qwen::Count> {
public:
  using basic_parser::basic_parser;
  int64_t least = 0, most = 0;

  bool parse(Option &option, StringRef, StringRef argument,
             qwen::Count &count) {
    if (!argument.getAsInteger(10, count.value) && count >= least &&
        count <= most)
      return false;
    return option.error("expected a whole number from " + Twine(least) +
                        " to " + Twine(most) + ", found '" +
                        qwen::printable(argument) + "'");
  }
  StringRef getValueName() const override { return "number"; }
  /// What --print-options shows.
  void printOptionDiff(const Option &option, int64_t value,
                       OptionValue<qwen::Count>, size_t width) const {
    printOptionName(option, width);
    outs() << "= " << value << "\n";
  }
};

namespace qwen {

using CountOption = llvm::cl::opt<Count>;

/// Gives a CountOption its range.
struct Between {
  int64_t least, most;
  void apply(CountOption &option) const {
    option.getParser().least = least;
    option.getParser().most = most;
  }
};

/// What LLVM guesses was meant, where it is near enough to what was given.
inline std::string nearestOption(llvm::StringRef given, llvm::StringRef text) {
  llvm::StringRef guess = text.split("Did you mean '").second.split('\'').first;
  if (guess.empty() || guess.edit_distance(given) > given.size() / 3)
    return "; --help lists the options";
  return ("; did you mean " + guess + "?").str();
}

/// A file larger than allowed is an error of writing it, as a full disk is.
inline void reportLargeFiles() { std::signal(SIGXFSZ, SIG_IGN); }

/// Reads the command line. False where it is wrong, which is then said.
inline bool parseCommandLine(int argc, char **argv, llvm::StringRef overview) {
  std::vector<const char *> arguments(argv, argv + argc);
  // LLVM begins its messages with the name that it is told.
  std::string name = (llvm::sys::path::filename(argv[0]) + ": error").str();
  if (llvm::none_of(llvm::ArrayRef(arguments), [](llvm::StringRef argument) {
        return argument.ltrim('-').starts_with("help");
      }))
    arguments[0] = name.c_str();
  // The first line names the fault, others guess what was meant.
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  if (llvm::cl::ParseCommandLineOptions(argc, arguments.data(), overview,
                                        &stream))
    return true;
  if (!problems.empty()) { // else it is printed already
    auto [line, more] = llvm::StringRef(problems).split('\n');
    llvm::errs() << line.split("  Try: ").first.rtrim(".!")
                 << nearestOption(line.split('\'').second.split('\'').first,
                                  more)
                 << "\n";
  }
  return false;
}

} // namespace qwen

#endif // QWEN_TOOLS_COMMANDLINE_H
