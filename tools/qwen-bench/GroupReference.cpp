//===- GroupReference.cpp - Generated kernels on the CPU ------------------===//

#include "GroupReference.h"

#include "qwen/Plan/Workspace.h"
#include "qwen/Plan/plan_generated.h"
#include "qwen/Support/BFloat16.h"
#include "qwen/Support/Tolerance.h"
#include "runtime/executor/Executor.h"
#include "runtime/kernels/cpu/Kernels.h"

#include <algorithm>
#include <cmath>

using namespace qwen;
using namespace qwen::bench;

StatusOr<std::unique_ptr<GroupReference>>
GroupReference::create(const std::string &path) {
  QWEN_ASSIGN_OR_RETURN(Plan plan, Plan::load(path));
  QWEN_RETURN_IF_ERROR(checkCpuTarget(plan.info().target));
  std::unique_ptr<GroupReference> made(new GroupReference(plan));
  QWEN_ASSIGN_OR_RETURN(made->groups, collectGroups(plan));
  const plan::Code *code = plan.raw().code();
  if (code && code->object()) {
    QWEN_ASSIGN_OR_RETURN(
        made->code, CodeImage::load(std::as_bytes(std::span(
                        code->object()->data(), code->object()->size()))));
  }
  return made;
}

/// Types, rows and sums agree; blocks of rows need not.
static bool sameKernel(const GroupArgs &a, const GroupArgs &b) {
  auto sameTypes = [](const auto &x, const auto &y) {
    return std::equal(
        x.begin(), x.end(), y.begin(), y.end(),
        [](const BufferType &s, const BufferType &t) { return s == t; });
  };
  return a.symbol == b.symbol && a.rows == b.rows &&
         a.columnSums == b.columnSums && a.accumulate == b.accumulate &&
         sameTypes(a.inputs, b.inputs) && sameTypes(a.outputs, b.outputs);
}

Status
GroupReference::run(const GroupCase &group,
                    std::vector<std::vector<std::byte>> &operands) const {
  auto found = std::find_if(groups.begin(), groups.end(), [&](auto &mine) {
    return sameKernel(mine.args, group.args);
  });
  if (found == groups.end())
    return makeError(StatusCode::FailedPrecondition,
                     "{}: the reference has no such kernel over such operands",
                     group.args.symbol);
  GroupArgs args = found->args;
  size_t next = 0;
  for (ConstBuffer &input : args.inputs)
    input.data = operands[next++].data();
  for (Buffer &output : args.outputs)
    output.data = operands[next++].data();
  cpu::LaunchContext context;
  std::vector<std::byte> scratch(size_t(cpuWorkspaceBytes(args)) + 64);
  void *begin = scratch.data();
  size_t space = scratch.size();
  context.workspace = {
      static_cast<std::byte *>(std::align(64, space - 64, begin, space)),
      scratch.size() - 64};
  QWEN_ASSIGN_OR_RETURN(void *function, code.find(args.symbol));
  context.group = reinterpret_cast<cpu::GroupFunction>(function);
  cpu::launch(args, context);
  return okStatus();
}

/// Elements of a view, row by row.
static std::vector<double> elementsOf(const BufferType &type,
                                      const std::vector<std::byte> &bytes) {
  std::vector<double> values;
  values.reserve(size_t(type.elements()));
  std::array<int64_t, maxRank> index{};
  for (int64_t n = type.elements(); n > 0; --n) {
    int64_t at = 0;
    for (int i = 0; i < type.rank; ++i)
      at += index[i] * type.strides[i];
    if (type.dtype == DType::BF16)
      values.push_back(
          toFloat(reinterpret_cast<const BFloat16 *>(bytes.data())[at]));
    else
      values.push_back(reinterpret_cast<const float *>(bytes.data())[at]);
    for (int i = type.rank - 1; i >= 0 && ++index[i] == type.shape[i]; --i)
      index[i] = 0;
  }
  return values;
}

/// Largest error as a part of its bound in rows of `columns` elements, whose
/// sums are of `length` terms.
static double compareRows(const std::vector<double> &expected,
                          const std::vector<double> &found, size_t columns,
                          DType stored, double length) {
  double worst = 0;
  for (size_t row = 0; row < expected.size(); row += columns) {
    double magnitude = 0;
    for (size_t i = row; i < row + columns; ++i)
      magnitude = std::max(magnitude, std::fabs(expected[i]));
    for (size_t i = row; i < row + columns; ++i) {
      double bound = 2 * resultTolerance(stored, sumTolerance(stored, length),
                                         magnitude, expected[i]);
      double error = std::fabs(found[i] - expected[i]);
      if (!(error <= bound)) // a NaN is wrong
        worst = std::max(worst, std::isfinite(error) ? error / bound : 1e9);
      else if (bound > 0)
        worst = std::max(worst, error / bound);
    }
  }
  return worst;
}

StatusOr<double>
GroupReference::compare(const GroupCase &group,
                        std::vector<std::vector<std::byte>> before,
                        const std::vector<std::vector<std::byte>> &after) {
  QWEN_RETURN_IF_ERROR(run(group, before));
  const GroupArgs &args = group.args;
  int64_t rowLength = 1;
  for (const ConstBuffer &input : args.inputs)
    if (input.rank > 1)
      rowLength = std::max(rowLength, input.dim(input.rank - 1));
  double worst = 0;
  for (size_t i = 0; i < args.outputs.size(); ++i) {
    const BufferType &type = args.outputs[i];
    size_t operand = args.inputs.size() + i;
    std::vector<double> expected = elementsOf(type, before[operand]);
    std::vector<double> found = elementsOf(type, after[operand]);
    bool isColumnSum = std::count(args.columnSums.begin(),
                                  args.columnSums.end(), int64_t(i)) > 0;
    bool isRowValue = !isColumnSum && type.elements() == args.rows;
    size_t columns =
        isRowValue || type.rank == 0 ? 1 : size_t(type.dim(type.rank - 1));
    double length = isColumnSum ? double(args.rows) : double(rowLength);
    worst = std::max(worst,
                     compareRows(expected, found, columns, type.dtype, length));
  }
  return worst;
}
