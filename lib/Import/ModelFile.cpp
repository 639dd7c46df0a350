//===- ModelFile.cpp - The text of a model --------------------------------===//

#include "lib/Import/ModelFile.h"

#include "runtime/support/File.h"

#include <cctype>
#include <vector>

using namespace qwen;

namespace {

/// Walks over the tokens that matter: brackets, and words that start affine
/// expressions. Strings and comments are skipped as the MLIR lexer does.
class Scanner {
public:
  Scanner(std::string_view text, std::string_view name)
      : text(text), name(name) {}
  Status scan();

private:
  char at(size_t i) const { return i < text.size() ? text[i] : '\0'; }
  void skipComment();
  void skipString();
  /// Takes a word with what may precede it in an identifier (@ # % ! ^).
  std::string_view takeWord();
  void close(char opening);
  Status error(size_t place, std::string_view what) const;

  std::string_view text, name;
  size_t next = 0;
  std::vector<char> open;
};

} // namespace

Status Scanner::error(size_t place, std::string_view what) const {
  size_t line = 1, column = 1;
  for (char c : text.substr(0, place)) {
    ++column;
    if (c == '\n') {
      ++line;
      column = 1;
    }
  }
  return dataLoss("{}:{}:{}: {}", name, line, column, what);
}

void Scanner::skipComment() {
  while (next < text.size() && text[next] != '\n')
    ++next;
}

void Scanner::skipString() {
  // A line's end closes it: the parser reports a string that has none.
  for (++next; next < text.size() && text[next] != '\n'; ++next) {
    if (text[next] == '\\')
      ++next;
    else if (text[next] == '"')
      break;
  }
  ++next;
}

static bool isWordStart(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '@' ||
         c == '#' || c == '%' || c == '!' || c == '^';
}

std::string_view Scanner::takeWord() {
  size_t begin = next++;
  while (std::isalnum(static_cast<unsigned char>(at(next))) ||
         at(next) == '_' || at(next) == '.' || at(next) == '$')
    ++next;
  return text.substr(begin, next - begin);
}

/// Closes the innermost bracket of the kind and what is still open in it. A
/// `>` may be a comparison: it closes nothing but its own kind.
void Scanner::close(char opening) {
  if (opening == '<' && (open.empty() || open.back() != '<'))
    return;
  for (size_t i = open.size(); i > 0; --i)
    if (open[i - 1] == opening) {
      open.resize(i - 1);
      return;
    }
}

Status Scanner::scan() {
  while (next < text.size()) {
    char c = text[next];
    if (c == '/' && at(next + 1) == '/') {
      skipComment();
      continue;
    }
    if (c == '"') {
      skipString();
      continue;
    }
    if (isWordStart(c)) {
      size_t place = next;
      std::string_view word = takeWord();
      if (word == "affine_map" || word == "affine_set")
        return error(place, "a model has no affine maps and sets");
      continue;
    }
    if (c == '-' && at(next + 1) == '>') {
      next += 2;
      continue;
    }
    if (c == '(' || c == '[' || c == '{' || c == '<')
      open.push_back(c);
    else if (c == ')' || c == ']' || c == '}' || c == '>')
      close(c == ')' ? '(' : c == ']' ? '[' : c == '}' ? '{' : '<');
    if (open.size() > size_t(maxModelNesting))
      return error(next, fmt::format("brackets are nested deeper than {}",
                                     maxModelNesting));
    ++next;
  }
  return okStatus();
}

Status qwen::checkModelText(std::string_view text, std::string_view name) {
  if (text.empty())
    return dataLoss("'{}' is empty; expected a model", name);
  if (text.starts_with("\xef\xbb\xbf"))
    return dataLoss("'{}' starts with a byte order mark; expected plain UTF-8",
                    name);
  if (size_t zero = text.find('\0'); zero != text.npos)
    return dataLoss("'{}' is not a text: byte {} is 0", name, zero);
  return Scanner(text, name).scan();
}

StatusOr<std::string> qwen::readModelText(const std::string &path) {
  bool standardInput = path == "-";
  QWEN_ASSIGN_OR_RETURN(
      std::string text,
      readTextFile(standardInput ? "/dev/stdin" : path, maxModelBytes));
  QWEN_RETURN_IF_ERROR(checkModelText(text, standardInput ? "<stdin>" : path));
  return text;
}
