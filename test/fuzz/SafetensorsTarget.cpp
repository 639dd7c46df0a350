//===- SafetensorsTarget.cpp - Hostile safetensors files ------------------===//
//
// What the reader accepts lies inside the file: every byte of every tensor is
// read. Weights of those types are widened too.
//
//===----------------------------------------------------------------------===//

#include "FuzzTarget.h"
#include "SafetensorsInput.h"
#include "runtime/checkpoint/Cast.h"
#include "runtime/checkpoint/Safetensors.h"

#include <algorithm>

using namespace qwen;

/// Reads a tensor as a checkpoint's loader does.
static void widen(const StoredTensor &tensor) {
  size_t elements =
      tensor.data.size() / static_cast<size_t>(fileDTypeBytes(tensor.dtype));
  std::vector<float> values(elements);
  Buffer out;
  out.rank = 1;
  out.shape[0] = static_cast<int64_t>(elements);
  out.strides[0] = 1;
  out.data = values.data();
  loadElements(tensor.dtype, tensor.data, out);
}

static bool readFile(std::span<const uint8_t> input) {
  fuzz::MemoryFile memory(input);
  StatusOr<SafetensorsFile> file = SafetensorsFile::open(memory.path());
  if (!file.ok()) {
    fuzz::expectOneLine(file.status().message());
    return false;
  }
  size_t total = 0;
  unsigned sum = 0;
  for (const StoredTensor &tensor : file->tensors()) {
    total += tensor.data.size();
    for (std::byte byte : tensor.data)
      sum += static_cast<unsigned>(byte);
    if (file->find(tensor.name) != &tensor)
      fuzz::breakPromise("a tensor is not found by its name", tensor.name);
    if (isWeightDType(tensor.dtype))
      widen(tensor);
  }
  // The sum keeps the loop: it fits 24 bits for every input of a fuzzer.
  if (total > input.size() || sum > 0xffu * input.size())
    fuzz::breakPromise("tensors have more bytes than the file", "");
  return true;
}

fuzz::Outcome fuzz::run(std::span<const uint8_t> input) {
  bool ok = readFile(input);
  std::vector<uint8_t> repaired = withRightLength(input);
  if (!std::equal(input.begin(), input.end(), repaired.begin()))
    ok |= readFile(repaired);
  return ok ? Outcome::Accepted : Outcome::Refused;
}
