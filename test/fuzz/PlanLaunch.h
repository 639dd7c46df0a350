//===- PlanLaunch.h - Launches of a hostile plan ---------------*- C++ -*-===//
//
// Runs what the kernel checks accept in memory that has exactly the operands'
// and the workspace's bytes, so that AddressSanitizer sees any byte beside.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_FUZZ_PLANLAUNCH_H
#define QWEN_TEST_FUZZ_PLANLAUNCH_H

#include <cstdint>
#include <span>

namespace qwen::fuzz {

/// For a plan whose header and memory are verified; its launches need not be.
void launchSteps(std::span<const uint8_t> flatBuffer);

} // namespace qwen::fuzz

#endif // QWEN_TEST_FUZZ_PLANLAUNCH_H
