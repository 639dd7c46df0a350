//===- CompiledGroup.h - Compile and call group functions ------*- C++ -*-===//
//
// Test support: MLIR text with kernel.group_function ops in, callable machine
// code out.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_UNIT_CODEGEN_COMPILEDGROUP_H
#define QWEN_TEST_UNIT_CODEGEN_COMPILEDGROUP_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace qwen::test {

class CompiledGroups {
public:
  /// Null, with the compiler's messages in `error`, where the text is refused.
  static std::unique_ptr<CompiledGroups> compile(const std::string &text,
                                                 std::string &error);
  ~CompiledGroups();

  /// Calls `symbol` on rows [begin, end).
  void call(const std::string &symbol, std::vector<void *> operands,
            int64_t begin, int64_t end, void *partials = nullptr) const;

  /// Bytes of the shared object.
  const std::string &object() const { return bytes; }

private:
  std::string bytes;
  void *handle = nullptr;
};

} // namespace qwen::test

#endif // QWEN_TEST_UNIT_CODEGEN_COMPILEDGROUP_H
