//===- FuzzMain.cpp - Entry point of libFuzzer ----------------------------===//

#include "FuzzTarget.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using qwen::fuzz::Outcome;
  // -1 keeps an input out of the corpus.
  return qwen::fuzz::run({data, size}) == Outcome::Hopeless ? -1 : 0;
}
