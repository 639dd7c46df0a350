//===- DiagnosticText.cpp - Diagnostics as a user reads them --------------===//

#include "lib/Import/DiagnosticText.h"

#include "runtime/support/Json.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace qwen;

static std::string clean(StringRef text) {
  constexpr size_t longest = 1000; // the parser may quote most of a model
  return printable(text.rtrim(), longest);
}

std::string qwen::placeText(Location location) {
  auto file = location->findInstanceOf<FileLineColLoc>();
  if (!file)
    return {};
  return clean(file.getFilename().getValue()) + ":" +
         std::to_string(file.getLine()) + ":" +
         std::to_string(file.getColumn()) + ": ";
}

std::string qwen::diagnosticText(Diagnostic &diagnostic) {
  std::string severity = "error";
  if (diagnostic.getSeverity() == DiagnosticSeverity::Warning)
    severity = "warning";
  else if (diagnostic.getSeverity() == DiagnosticSeverity::Remark)
    severity = "remark";
  bool isError = severity == "error";
  std::string text = placeText(diagnostic.getLocation()) + severity + ": " +
                     clean(diagnostic.str());
  for (Diagnostic &note : diagnostic.getNotes())
    text += (isError ? "; " : "\n") + placeText(note.getLocation()) +
            (isError ? "" : "note: ") + clean(note.str());
  return text;
}
