//===- SafetensorsInput.h - Safetensors files that pass the frame -*- C++ -*-=//
//
// Puts right what a fuzzer's change of the header nearly always breaks.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_FUZZ_SAFETENSORSINPUT_H
#define QWEN_TEST_FUZZ_SAFETENSORSINPUT_H

#include <cstdint>
#include <span>
#include <vector>

namespace qwen::fuzz {

/// The file with the length of its JSON object, and of the spaces behind it, as
/// the header's length; the same bytes where there is no such object.
std::vector<uint8_t> withRightLength(std::span<const uint8_t> file);

} // namespace qwen::fuzz

#endif // QWEN_TEST_FUZZ_SAFETENSORSINPUT_H
