//===- FakeNccl.cpp - A library that calls itself NCCL ---------*- C++ -*-===//
//
// Tells the version that the environment says and has one function more: what
// an old or a damaged installation looks like.
//
//===----------------------------------------------------------------------===//

#include <cstdlib>

extern "C" int ncclGetVersion(int *version) {
  const char *text = std::getenv("FAKE_NCCL_VERSION");
  *version = text ? std::atoi(text) : 0;
  return 0;
}

extern "C" int ncclGetUniqueId(void *) { return 0; }
