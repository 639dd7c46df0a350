//===- PlanTablesVerifier.cpp - Parameters, inputs, outputs ---------------===//
//
// Checks what the trainer and the checkpoint code rely on: unique names, each
// tensor in a buffer of its class, no two tensors on the same bytes, stacks
// without gaps.
//
//===----------------------------------------------------------------------===//

#include "runtime/plan/Plan.h"
#include "runtime/plan/PlanSteps.h"
#include "runtime/plan/PlanVerifier.h"
#include "runtime/support/Json.h"

#include <algorithm>
#include <map>
#include <set>

using namespace qwen;

namespace {

const plan::TensorType &typeOf(const plan::Plan &plan, uint32_t view) {
  return *plan.types()->Get(plan.views()->Get(view)->type());
}

/// One of a parameter's tensors: its role and where its view id stands.
struct ParameterRole {
  std::string_view name;
  plan::BufferClass holds;
  uint32_t (plan::Parameter::*view)() const;
};

const ParameterRole parameterRoles[] = {
    {"value", plan::BufferClass::Parameter, &plan::Parameter::value},
    {"gradient", plan::BufferClass::Gradient, &plan::Parameter::gradient},
    {"moment1", plan::BufferClass::Moment1, &plan::Parameter::moment1},
    {"moment2", plan::BufferClass::Moment2, &plan::Parameter::moment2},
    {"master", plan::BufferClass::Master, &plan::Parameter::master},
};

bool hasFloatType(const plan::TensorType &type) {
  return type.dtype() != plan::ElementType::I32;
}

Status verifyParameter(const plan::Plan &plan,
                       const plan::Parameter &parameter) {
  if (parameter.init() > plan::Init::MAX)
    return dataLoss("unknown initialisation {}",
                    static_cast<int>(parameter.init()));
  if (!(parameter.init_std() >= 0 && parameter.init_std() < 1e6))
    return dataLoss("initial standard deviation {}", parameter.init_std());
  bool sharded = plan.world_size() > 1; // then its place is in a bucket
  for (const ParameterRole &role : parameterRoles) {
    uint32_t view = (parameter.*role.view)();
    if (sharded && view != noPlanId)
      return dataLoss("{} is view {}, expected none in a plan for {} ranks",
                      role.name, view, plan.world_size());
    if (sharded)
      continue;
    if (view == noPlanId && role.holds != plan::BufferClass::Parameter)
      continue;
    QWEN_RETURN_IF_ERROR(
        checkView(plan, view, role.holds).withContext(role.name));
    BufferType value = toBufferType(typeOf(plan, parameter.value()));
    BufferType type = toBufferType(typeOf(plan, view));
    if (type.rank != value.rank || type.shape != value.shape)
      return dataLoss("{} is {}, the parameter {}", role.name, toString(type),
                      toString(value));
    if (!hasFloatType(typeOf(plan, view)))
      return dataLoss("{} has element type i32", role.name);
    bool wide = role.holds == plan::BufferClass::Gradient ||
                role.holds == plan::BufferClass::Master;
    DType expected = value.dtype == DType::F64 ? DType::F64 : DType::F32;
    if (wide && type.dtype != expected)
      return dataLoss("{} has element type {}, expected {}", role.name,
                      dtypeName(type.dtype), dtypeName(expected));
  }
  if ((parameter.moment1() == noPlanId) != (parameter.moment2() == noPlanId))
    return dataLoss("only one of the two moments exists");
  return okStatus();
}

/// All tensors of one role: no shared byte, and stacks are without gaps.
Status verifyPlacement(const plan::Plan &plan, const ParameterRole &role) {
  struct Span {
    uint32_t buffer;
    uint64_t begin, end;
    const plan::Parameter *parameter;
    auto key() const { return std::tuple(buffer, begin); }
  };
  std::vector<Span> spans;
  for (const plan::Parameter *parameter : *plan.parameters()) {
    uint32_t id = (parameter->*role.view)();
    if (id == noPlanId)
      continue;
    const plan::View &view = *plan.views()->Get(id);
    uint64_t bytes = toBufferType(typeOf(plan, id)).bytes();
    spans.push_back({view.buffer(), view.byte_offset(),
                     view.byte_offset() + bytes, parameter});
  }
  std::sort(spans.begin(), spans.end(),
            [](const Span &a, const Span &b) { return a.key() < b.key(); });
  for (size_t i = 1; i < spans.size(); ++i) {
    const Span &a = spans[i - 1], &b = spans[i];
    bool oneStack = a.parameter->stack() == b.parameter->stack();
    if (a.buffer == b.buffer && a.end > b.begin)
      return dataLoss("{} of parameters '{}' and '{}' overlap", role.name,
                      printable(a.parameter->name()->string_view()),
                      printable(b.parameter->name()->string_view()));
    if (oneStack &&
        (a.buffer != b.buffer || a.end != b.begin ||
         a.parameter->stack_index() + 1 != b.parameter->stack_index()))
      return dataLoss("{} of '{}' does not follow '{}', which is before it in "
                      "stack {}",
                      role.name, printable(b.parameter->name()->string_view()),
                      printable(a.parameter->name()->string_view()),
                      a.parameter->stack());
  }
  return okStatus();
}

Status verifyParameters(const plan::Plan &plan) {
  if (!plan.parameters())
    return okStatus();
  std::set<std::string_view> names;
  std::map<uint32_t, std::set<uint32_t>> stacks;
  for (size_t i = 0; i < plan.parameters()->size(); ++i) {
    const plan::Parameter &parameter = *plan.parameters()->Get(i);
    std::string_view name = parameter.name()->string_view();
    if (name.empty() || !names.insert(name).second)
      return dataLoss("parameter {}: the name '{}' is empty or used twice", i,
                      printable(name));
    QWEN_RETURN_IF_ERROR(
        verifyParameter(plan, parameter)
            .withContext(fmt::format("parameter {} '{}'", i, printable(name))));
    if (!stacks[parameter.stack()].insert(parameter.stack_index()).second)
      return dataLoss("parameter {} '{}': place {} of stack {} is taken", i,
                      printable(name), parameter.stack_index(),
                      parameter.stack());
  }
  for (auto &[stack, places] : stacks)
    if (*places.rbegin() + size_t(1) != places.size())
      return dataLoss("parameter stack {}: {} members, but place {} is used",
                      stack, places.size(), *places.rbegin());
  if (plan.world_size() > 1)
    return okStatus();
  for (const ParameterRole &role : parameterRoles)
    QWEN_RETURN_IF_ERROR(verifyPlacement(plan, role));
  return okStatus();
}

using Ports = flatbuffers::Vector<flatbuffers::Offset<plan::Port>>;
using PortViews = std::map<std::string_view, uint32_t>;

/// Names unique in `seen`, views of the class.
Status verifyPorts(const plan::Plan &plan, const Ports *ports,
                   plan::BufferClass holds, PortViews &seen) {
  for (size_t i = 0; i < count(ports); ++i) {
    const plan::Port &port = *ports->Get(i);
    std::string_view name = port.name()->string_view();
    std::string context = fmt::format(
        "{} {} '{}'", holds == plan::BufferClass::Input ? "input" : "output", i,
        printable(name));
    QWEN_RETURN_IF_ERROR(
        checkView(plan, port.view(), holds).withContext(context));
    if (name.empty() || !seen.emplace(name, port.view()).second)
      return dataLoss("{}: the name is empty or used twice", context);
  }
  return okStatus();
}

bool sameView(const plan::Plan &plan, uint32_t a, uint32_t b) {
  const plan::View &x = *plan.views()->Get(a), &y = *plan.views()->Get(b);
  return x.buffer() == y.buffer() && x.byte_offset() == y.byte_offset() &&
         toBufferType(typeOf(plan, a)) == toBufferType(typeOf(plan, b));
}

Status verifyPrograms(const plan::Plan &plan) {
  std::set<std::string_view> names;
  PortViews allInputs;
  for (size_t i = 0; i < count(plan.programs()); ++i) {
    const plan::Program &program = *plan.programs()->Get(i);
    std::string_view name = program.name()->string_view();
    if (name.empty() || !names.insert(name).second)
      return dataLoss("program {}: the name '{}' is empty or used twice", i,
                      printable(name));
    std::string context = fmt::format("program {} '{}'", i, printable(name));
    PortViews inputs, outputs;
    QWEN_RETURN_IF_ERROR(
        verifyPorts(plan, program.inputs(), plan::BufferClass::Input, inputs)
            .withContext(context));
    QWEN_RETURN_IF_ERROR(
        verifyPorts(plan, program.outputs(), plan::BufferClass::Output, outputs)
            .withContext(context));
    for (auto &[input, view] : inputs) {
      auto [known, isNew] = allInputs.emplace(input, view);
      if (!isNew && !sameView(plan, known->second, view))
        return dataLoss("{}: input '{}' is another buffer or type than in an "
                        "earlier program",
                        context, printable(input));
    }
  }
  return okStatus();
}

} // namespace

Status qwen::checkView(const plan::Plan &plan, uint32_t view,
                       plan::BufferClass holds) {
  if (view >= count(plan.views()))
    return dataLoss("view {}, the plan has {}", view, count(plan.views()));
  uint32_t buffer = plan.views()->Get(view)->buffer();
  plan::BufferClass found =
      plan.arenas()->Get(plan.buffers()->Get(buffer)->arena())->holds();
  if (found != holds)
    return dataLoss("view {} lies in a buffer of class {}, expected {}", view,
                    plan::EnumNameBufferClass(found),
                    plan::EnumNameBufferClass(holds));
  if (!toBufferType(typeOf(plan, view)).isContiguous())
    return dataLoss("view {} is not contiguous", view);
  return okStatus();
}

Status qwen::verifyPlanTables(const plan::Plan &plan) {
  QWEN_RETURN_IF_ERROR(verifyPlanBuckets(plan));
  QWEN_RETURN_IF_ERROR(verifyParameters(plan));
  return verifyPrograms(plan);
}
