//===- PlanSlots.h - Mutations of a plan's numbers -------------*- C++ -*-===//
//
// Changes numbers of a FlatBuffer in place, found by the schema.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_FUZZ_PLANSLOTS_H
#define QWEN_TEST_FUZZ_PLANSLOTS_H

#include "PlanObjects.h"

#include <span>

namespace qwen::fuzz {

/// Whether a verified FlatBuffer is like one that a builder writes, which
/// FlatBuffers' own verifier does not ask: each number lies at a multiple of
/// its size, and parts are not shared so often that as objects they fill
/// memory.
bool isPlain(std::span<uint8_t> body);

/// Changes 0 to 3 numbers. Each field of the schema is as likely as another,
/// however often it stands in the plan.
void mutateSlots(std::span<uint8_t> body, Random &random);

} // namespace qwen::fuzz

#endif // QWEN_TEST_FUZZ_PLANSLOTS_H
