//===- DiagnosticText.h - Diagnostics as a user reads them -----*- C++ -*-===//
//
// Names and attributes of a model stand in messages: none of their bytes may
// break a line or reach a terminal as a command.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_IMPORT_DIAGNOSTICTEXT_H
#define QWEN_LIB_IMPORT_DIAGNOSTICTEXT_H

#include "mlir/IR/Diagnostics.h"

namespace qwen {

/// "file:line:column: ", or nothing where the location has none.
std::string placeText(mlir::Location location);

/// Place, severity and text. An error is one line, whatever notes belong to it;
/// a remark's notes have a line each. Control characters are escaped.
std::string diagnosticText(mlir::Diagnostic &diagnostic);

} // namespace qwen

#endif // QWEN_LIB_IMPORT_DIAGNOSTICTEXT_H
