//===- OccupyGpu.h - A GPU on which nothing gets on ------------*- C++ -*-===//

#ifndef QWEN_TEST_E2E_RANKS_OCCUPYGPU_H
#define QWEN_TEST_E2E_RANKS_OCCUPYGPU_H

namespace qwen::ranktest {

/// Leaves no other kernel of this process a place on its current device until
/// the process ends. Null, or what was wrong.
const char *occupyGpu();

} // namespace qwen::ranktest

#endif // QWEN_TEST_E2E_RANKS_OCCUPYGPU_H
