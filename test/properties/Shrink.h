//===- Shrink.h - Which case fails, and its smallest form ------*- C++ -*-===//

#ifndef QWEN_TEST_PROPERTIES_SHRINK_H
#define QWEN_TEST_PROPERTIES_SHRINK_H

#include "Laws.h"

#include <utility>

namespace qwen::property {

/// What a command line chooses.
struct Selection {
  CaseName name;
  std::string law; ///< empty: those that the case draws
  Break fault = Break::None;
};

/// What was found of one law.
struct Failure {
  std::string law, model, packs, variant;
  std::vector<std::string> findings;
};

/// "token", as on the command line.
const char *breakName(Break fault);
/// The path of this program, for commands.
void setProgram(const std::string &path);
/// The command line that checks a selection again.
std::string commandOf(const Selection &selection);

/// The laws that a selection checks: the named one, or those that are drawn.
std::vector<Law> lawsOf(const Selection &selection);
/// Checks these laws on a case; the first failure, if any.
std::optional<Failure> checkCase(const Selection &selection,
                                 const std::vector<Law> &chosen);

/// The failing law alone, with as few layers and documents as a bounded search
/// finds to fail too.
std::pair<Selection, Failure> shrink(const Selection &selection,
                                     const Failure &failure);

} // namespace qwen::property

#endif // QWEN_TEST_PROPERTIES_SHRINK_H
