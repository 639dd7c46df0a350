//===- Cases.h - One gradient check for each derivative rule ---*- C++ -*-===//

#ifndef QWEN_TEST_GRADCHECK_CASES_H
#define QWEN_TEST_GRADCHECK_CASES_H

#include "GradCheck.h"

namespace qwen::gradcheck {

/// Elementwise ops of arith, math and qwen.
std::vector<GradientCase> elementwiseCases();
/// Matrix products, row-wise ops, ops that move elements.
std::vector<GradientCase> structureCases();
/// Region ops on packs of ragged documents.
std::vector<GradientCase> regionCases();
/// Values used several times, functions called several times.
std::vector<GradientCase> graphCases();

std::vector<GradientCase> allCases();

} // namespace qwen::gradcheck

#endif // QWEN_TEST_GRADCHECK_CASES_H
