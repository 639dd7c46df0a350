//===- Group.cpp - Generated kernels on a GPU -----------------------------===//
//
// kernel.group. The plan's kernel does all rows; where it has column sums, a
// second launch adds those of its blocks in order.
//
//===----------------------------------------------------------------------===//

#include "Group.h"
#include "GroupSums.h"
#include "qwen/Plan/Scratch.h"
#include "qwen/Plan/plan_generated.h"

#include <algorithm>
#include <utility>

using namespace qwen;
using namespace qwen::cuda;

StatusOr<GroupCode> GroupCode::load(const plan::Plan &plan) {
  GroupCode code;
  code.plan = &plan;
  if (!plan.code() || !plan.code()->object())
    return code;
  cudaError_t error =
      cudaLibraryLoadData(&code.library, plan.code()->object()->data(), nullptr,
                          nullptr, 0, nullptr, nullptr, 0);
  if (error != cudaSuccess)
    return makeError(StatusCode::FailedPrecondition,
                     "cannot load the plan's code for {}: {}",
                     plan.target()->string_view(), cudaGetErrorString(error));
  return code;
}

GroupCode::GroupCode(GroupCode &&other) noexcept { *this = std::move(other); }

GroupCode &GroupCode::operator=(GroupCode &&other) noexcept {
  std::swap(plan, other.plan);
  std::swap(library, other.library);
  return *this;
}

GroupCode::~GroupCode() {
  if (library)
    cudaLibraryUnload(library);
}

StatusOr<GroupKernel> GroupCode::find(const std::string &symbol) const {
  GroupKernel kernel;
  cudaError_t error =
      library ? cudaLibraryGetKernel(&kernel.function, library, symbol.c_str())
              : cudaErrorSymbolNotFound;
  if (error != cudaSuccess)
    return dataLoss("the plan's code has no kernel '{}': {}", symbol,
                    cudaGetErrorString(error));
  for (const plan::CodeSymbol *entry : *plan->code()->symbols())
    if (entry->name()->string_view() == symbol) {
      kernel.threads = entry->threads();
      kernel.blocks = entry->blocks();
    }
  return kernel;
}

/// The sums of one output after the other, in each block's area.
static cudaError_t addColumnSums(const GroupArgs &args,
                                 const GroupScratch &scratch,
                                 cudaStream_t stream) {
  std::vector<PartialSums> sums;
  int64_t offset = 0;
  for (int64_t i : args.columnSums) {
    const Buffer &out = args.outputs[i];
    bool accumulate = std::find(args.accumulate.begin(), args.accumulate.end(),
                                i) != args.accumulate.end();
    sums.push_back({reinterpret_cast<const float *>(scratch.partials + offset),
                    out.as<float>(), out.elements(), accumulate});
    offset += out.bytes();
  }
  return addPartialSums(sums, scratch.blocks, scratch.blockBytes / 4, stream);
}

cudaError_t qwen::cuda::launch(const GroupArgs &args,
                               const LaunchContext &context) {
  Carver carver(context.workspace.data());
  GroupScratch scratch(carver, args);
  std::vector<const void *> operands;
  for (const ConstBuffer &input : args.inputs)
    operands.push_back(input.data);
  for (const Buffer &output : args.outputs)
    operands.push_back(output.data);
  operands.push_back(scratch.partials);
  std::vector<void *> parameters;
  for (const void *&operand : operands)
    parameters.push_back(&operand);

  const GroupKernel &kernel = context.group;
  cudaError_t error = cudaLaunchKernel(
      reinterpret_cast<const void *>(kernel.function), dim3(kernel.blocks),
      dim3(kernel.threads), parameters.data(), 0, context.stream);
  if (error != cudaSuccess || args.columnSums.empty())
    return error;
  return addColumnSums(args, scratch, context.stream);
}
