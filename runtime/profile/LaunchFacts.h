//===- LaunchFacts.h - Work of the launches of a plan ----------*- C++ -*-===//
//
// What a plan says of its launches: kernel, place in the model, operands, FLOPs
// and bytes. For printing plans and for profiles.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_PROFILE_LAUNCHFACTS_H
#define QWEN_RUNTIME_PROFILE_LAUNCHFACTS_H

#include "runtime/plan/Plan.h"

#include <string>
#include <vector>

namespace qwen {

/// An operand of a launch.
struct LaunchOperand {
  std::string name;
  uint32_t view;
  BufferType type;
  bool reads, writes;
};

/// A launch as it is printed.
struct LaunchFacts {
  std::string kernel; ///< "gemm"
  std::string symbol; ///< of the code, for groups
  std::string label;  ///< where in the model, empty where unknown
  /// What tells launches of one kernel apart: "8192x5120x17408 nt".
  std::string shape;
  int stream = 0; ///< 0 computes, 1 communicates
  std::vector<LaunchOperand> operands;
  int64_t flops = 0;
  /// Added for each pair of a token and one at or before it in its document.
  double flopsPerPair = 0;
  int64_t bytes = 0; ///< kernelBytes

  double flopsOf(double contextPairs) const {
    return double(flops) + flopsPerPair * contextPairs;
  }
};

/// All launches of a program.
std::vector<LaunchFacts> launchFacts(const Plan &plan, int program);

/// The parts of a training step.
enum class Stage { Forward, Loss, Backward, Recompute, Update };
inline constexpr int stageCount = 5;
const char *stageName(Stage stage);

/// Where in a step a launch stands.
struct LaunchPlace {
  Stage stage = Stage::Forward;
  std::string layer; ///< "model.layers.3"; empty outside of layers
  std::string kind;  ///< "attention_layer"; empty outside of layers
};

/// Places of a program's launches. Those outside of layers belong to the pass
/// that their place before or after the loss tells.
std::vector<LaunchPlace> launchPlaces(const std::vector<LaunchFacts> &launches);

} // namespace qwen

#endif // QWEN_RUNTIME_PROFILE_LAUNCHFACTS_H
