//===- RuleTest.cpp - Every derivative rule against differences -----------===//

#include "Cases.h"

#include "dialects/Qwen/Qwen.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <set>

using namespace mlir;

namespace qwen::gradcheck {

class RuleTest : public testing::TestWithParam<GradientCase> {};

TEST_P(RuleTest, MatchesDifferences) { checkGradients(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Rules, RuleTest, testing::ValuesIn(allCases()),
                         [](const testing::TestParamInfo<GradientCase> &info) {
                           std::string name = info.param.name;
                           for (char &c : name)
                             if (!isalnum(static_cast<unsigned char>(c)))
                               c = '_';
                           return name;
                         });

/// A new rule needs a case here.
TEST(Coverage, EveryRuleHasACase) {
  std::unique_ptr<MLIRContext> context = makeContext();
  std::set<std::string> covered;
  for (const GradientCase &test : allCases()) {
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(test.module, context.get());
    ASSERT_TRUE(module) << test.name;
    module->walk([&](Operation *op) {
      covered.insert(op->getName().getStringRef().str());
    });
  }
  unsigned rules = 0;
  for (RegisteredOperationName name : context->getRegisteredOperations()) {
    if (!name.hasInterface<DifferentiableOpInterface>())
      continue;
    ++rules;
    EXPECT_TRUE(covered.contains(name.getStringRef().str()))
        << name.getStringRef().str() << " has a derivative rule and no case";
  }
  EXPECT_GT(rules, 0u);
}

} // namespace qwen::gradcheck
