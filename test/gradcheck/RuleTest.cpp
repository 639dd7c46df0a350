//===- RuleTest.cpp - Every derivative rule against differences -----------===//

#include "Cases.h"

#include "dialects/Qwen/Qwen.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest-spi.h>
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

/// Runs the check on a derivative in which a product became a sum.
static void checkWrongDerivative() {
  GradientCase test = graphCases().front();
  std::unique_ptr<MLIRContext> context = makeContext();
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(test.module, context.get());
  if (!module || failed(differentiate(*module)))
    return;
  for (const char *program : {"micro_step", "first_micro_step"}) {
    arith::MulFOp last;
    module->lookupSymbol(program)->walk([&](arith::MulFOp op) { last = op; });
    OpBuilder builder(last);
    Value sum = arith::AddFOp::create(builder, last.getLoc(), last.getLhs(),
                                      last.getRhs());
    last.replaceAllUsesWith(sum);
  }
  compareGradients(*module, test);
}

TEST(Check, FindsAWrongDerivative) {
  testing::TestPartResultArray failures;
  {
    testing::ScopedFakeTestPartResultReporter reporter(&failures);
    checkWrongDerivative();
  }
  ASSERT_GT(failures.size(), 0);
  EXPECT_NE(std::string(failures.GetTestPartResult(0).message())
                .find("gradient of a at element 0"),
            std::string::npos);
}

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
