//===- Status.cpp - Names of status codes ---------------------------------===//

#include "qwen/Support/Status.h"

std::string_view qwen::statusCodeName(StatusCode code) {
  switch (code) {
  case StatusCode::Ok:
    return "ok";
  case StatusCode::InvalidArgument:
    return "invalid argument";
  case StatusCode::NotFound:
    return "not found";
  case StatusCode::DataLoss:
    return "data loss";
  case StatusCode::FailedPrecondition:
    return "failed precondition";
  case StatusCode::ResourceExhausted:
    return "resource exhausted";
  case StatusCode::IoError:
    return "i/o error";
  case StatusCode::Internal:
    return "internal error";
  }
  return "unknown";
}
