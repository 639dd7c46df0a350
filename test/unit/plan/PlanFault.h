//===- PlanFault.h - Plans that must be refused ----------------*- C++ -*-===//

#ifndef QWEN_TEST_UNIT_PLAN_PLANFAULT_H
#define QWEN_TEST_UNIT_PLAN_PLANFAULT_H

#include "PlanDraft.h"

#include <gtest/gtest.h>

namespace qwen::test {

/// A change of a good plan, and what the reader says of it.
struct PlanFault {
  const char *name;
  std::function<void(PlanDraft &)> spoil;
  const char *message; // part of it
  StatusCode code = StatusCode::DataLoss;
};

inline void PrintTo(const PlanFault &fault, std::ostream *out) {
  *out << fault.name;
}

/// Spoils the draft and expects the fault's error.
inline void expectRefused(PlanDraft draft, const PlanFault &fault) {
  fault.spoil(draft);
  auto plan = parse(draft.build());
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.status().message().find(fault.message), std::string::npos)
      << plan.status().message();
  EXPECT_EQ(plan.status().code(), fault.code);
}

} // namespace qwen::test

#endif // QWEN_TEST_UNIT_PLAN_PLANFAULT_H
