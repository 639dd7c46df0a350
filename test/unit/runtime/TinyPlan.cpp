//===- TinyPlan.cpp - A training plan made by hand ------------------------===//

#include "TinyPlan.h"

#include "qwen/Plan/KernelAbi.h"
#include "qwen/Plan/Workspace.h"
#include "qwen/Plan/plan_generated.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/PlanFile.h"

#include <algorithm>
#include <span>
#include <vector>

using namespace qwen;
using plan::BufferClass;

namespace {

/// Collects the tables of a plan. Every buffer has an arena of its own.
class TinyPlanBuilder {
public:
  explicit TinyPlanBuilder(const TinyPlanOptions &options) : o(options) {}
  std::string build();

private:
  uint32_t type(DType dtype, std::vector<int64_t> shape,
                std::vector<int64_t> strides = {});
  uint32_t buffer(int64_t bytes, BufferClass holds, int program = -1,
                  uint32_t last = 0);
  uint32_t view(uint32_t bufferId, uint32_t typeId);
  /// A contiguous view of a fresh buffer.
  uint32_t tensor(BufferClass holds, DType dtype, std::vector<int64_t> shape,
                  int program = -1, uint32_t last = 0);
  template <typename Table>
  void step(plan::Kernel kernel, flatbuffers::Offset<Table> table);
  void port(std::vector<flatbuffers::Offset<plan::Port>> &ports,
            const char *name, uint32_t viewId);
  void endProgram(const char *name,
                  std::vector<flatbuffers::Offset<plan::Port>> inputs,
                  std::vector<flatbuffers::Offset<plan::Port>> outputs);
  void addInputs();
  void addParameters();
  void addMicroStep(const char *name, bool accumulate);
  void addUpdate();
  void addEval();
  uint32_t addWorkspace();
  uint64_t tableBytes() const;
  uint64_t arenaBytes(std::initializer_list<BufferClass> classes) const;

  TinyPlanOptions o;
  flatbuffers::FlatBufferBuilder fb;
  std::vector<plan::Arena> arenas;
  std::vector<plan::Buffer> buffers;
  std::vector<plan::TensorType> types;
  std::vector<plan::View> views;
  std::vector<flatbuffers::Offset<plan::Parameter>> parameters;
  std::vector<flatbuffers::Offset<plan::Program>> programs;
  std::vector<flatbuffers::Offset<plan::Step>> steps;
  uint32_t tokens, labels, positions, cuSeqlens, lossScale, scaleOfToken, hyper,
      rng, embed, head;
  std::vector<uint32_t> values, gradients, moments1, moments2, masters;
};

uint32_t TinyPlanBuilder::type(DType dtype, std::vector<int64_t> shape,
                               std::vector<int64_t> strides) {
  int rank = int(shape.size());
  if (strides.empty()) {
    strides.resize(size_t(rank), 1);
    for (int d = rank - 2; d >= 0; --d)
      strides[size_t(d)] = strides[size_t(d) + 1] * shape[size_t(d) + 1];
  }
  shape.resize(4);
  strides.resize(4);
  types.emplace_back(flatbuffers::span<const int64_t, 4>(shape.data(), 4),
                     flatbuffers::span<const int64_t, 4>(strides.data(), 4),
                     static_cast<plan::ElementType>(dtype), uint8_t(rank));
  return uint32_t(types.size() - 1);
}

uint32_t TinyPlanBuilder::buffer(int64_t bytes, BufferClass holds, int program,
                                 uint32_t last) {
  arenas.emplace_back(uint64_t(bytes + 63) / 64 * 64, holds);
  buffers.emplace_back(0, uint64_t(bytes), uint32_t(arenas.size() - 1), program,
                       0, last);
  return uint32_t(buffers.size() - 1);
}

uint32_t TinyPlanBuilder::view(uint32_t bufferId, uint32_t typeId) {
  views.emplace_back(bufferId, typeId, 0);
  return uint32_t(views.size() - 1);
}

uint32_t TinyPlanBuilder::tensor(BufferClass holds, DType dtype,
                                 std::vector<int64_t> shape, int program,
                                 uint32_t last) {
  int64_t bytes = dtypeBytes(dtype);
  for (int64_t dim : shape)
    bytes *= dim;
  return view(buffer(bytes, holds, program, last), type(dtype, shape));
}

template <typename Table>
void TinyPlanBuilder::step(plan::Kernel kernel,
                           flatbuffers::Offset<Table> table) {
  steps.push_back(plan::CreateStep(fb, kernel, table.Union(), 0, noPlanId));
}

void TinyPlanBuilder::port(std::vector<flatbuffers::Offset<plan::Port>> &ports,
                           const char *name, uint32_t viewId) {
  ports.push_back(plan::CreatePortDirect(fb, name, viewId));
}

void TinyPlanBuilder::endProgram(
    const char *name, std::vector<flatbuffers::Offset<plan::Port>> inputs,
    std::vector<flatbuffers::Offset<plan::Port>> outputs) {
  programs.push_back(
      plan::CreateProgramDirect(fb, name, &inputs, &outputs, &steps));
  steps.clear();
}

void TinyPlanBuilder::addInputs() {
  tokens = tensor(BufferClass::Input, DType::I32, {o.tokens});
  labels = tensor(BufferClass::Input, DType::I32, {o.tokens});
  positions = tensor(BufferClass::Input, DType::I32, {o.tokens});
  cuSeqlens = tensor(BufferClass::Input, DType::I32, {o.documents + 1});
  lossScale = tensor(BufferClass::Input, DType::F32, {});
  // The scalar seen once for every token.
  scaleOfToken =
      view(uint32_t(buffers.size() - 1), type(DType::F32, {o.tokens}, {0}));
  hyper = tensor(BufferClass::Input, DType::F32, {8});
  rng = tensor(BufferClass::Input, DType::I32, {2});
}

void TinyPlanBuilder::addParameters() {
  uint32_t stack = 0;
  for (const char *name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    std::vector<int64_t> shape = {o.vocab, o.hidden};
    values.push_back(tensor(BufferClass::Parameter, o.parameters, shape));
    gradients.push_back(tensor(BufferClass::Gradient, DType::F32, shape));
    moments1.push_back(tensor(BufferClass::Moment1, DType::F32, shape));
    moments2.push_back(tensor(BufferClass::Moment2, DType::F32, shape));
    if (o.masters)
      masters.push_back(tensor(BufferClass::Master, DType::F32, shape));
    parameters.push_back(plan::CreateParameterDirect(
        fb, name, values.back(), gradients.back(), moments1.back(),
        moments2.back(), o.masters ? masters.back() : noPlanId,
        plan::Init::Normal, 0.3, /*decay=*/stack == 0, stack, 0));
    ++stack;
  }
  embed = values[0];
  head = values[1];
}

void TinyPlanBuilder::addMicroStep(const char *name, bool accumulate) {
  auto program = int(programs.size());
  std::vector<int64_t> rows = {o.tokens, o.hidden};
  uint32_t dnll =
      tensor(BufferClass::Activation, DType::F32, {o.tokens}, program, 3);
  uint32_t x = tensor(BufferClass::Activation, o.parameters, rows, program, 3);
  uint32_t dx = tensor(BufferClass::Activation, o.parameters, rows, program, 3);
  uint32_t nll = tensor(BufferClass::Output, DType::F32, {o.tokens});
  step(plan::Kernel::Copy, plan::CreateCopy(fb, scaleOfToken, dnll));
  step(plan::Kernel::Embedding, plan::CreateEmbedding(fb, embed, tokens, x));
  step(plan::Kernel::LinearCrossEntropyGrad,
       plan::CreateLinearCrossEntropyGrad(fb, x, head, labels, dnll, nll, dx,
                                          gradients[1], -100, accumulate));
  step(plan::Kernel::EmbeddingGrad,
       plan::CreateEmbeddingGrad(fb, dx, tokens, gradients[0], accumulate));
  std::vector<flatbuffers::Offset<plan::Port>> inputs, outputs;
  port(inputs, "tokens", tokens);
  port(inputs, "labels", labels);
  port(inputs, "positions", positions);
  port(inputs, "cu_seqlens", cuSeqlens);
  port(inputs, "loss_scale", lossScale);
  port(outputs, "nll", nll);
  endProgram(name, inputs, outputs);
}

void TinyPlanBuilder::addUpdate() {
  uint32_t stats = tensor(BufferClass::Output, DType::F32, {4});
  step(plan::Kernel::GradNorm,
       plan::CreateGradNormDirect(fb, &gradients, hyper, stats));
  // One launch for the tensors that decay, one for those that do not.
  for (uint32_t i = 0; i < 2; ++i) {
    auto only = [&](const std::vector<uint32_t> &ids) {
      return ids.empty() ? ids : std::vector<uint32_t>{ids[i]};
    };
    auto params = only(values), grads = only(gradients), m = only(moments1),
         v = only(moments2), wide = only(masters);
    std::vector<int64_t> tensorIds = {int64_t(i)};
    step(plan::Kernel::AdamW,
         plan::CreateAdamWDirect(fb, &params, &grads, &m, &v, &wide, hyper,
                                 stats, rng, &tensorIds, i == 0));
  }
  std::vector<flatbuffers::Offset<plan::Port>> inputs, outputs;
  port(inputs, "hyper", hyper);
  port(inputs, o.withRng ? "rng" : "random", rng);
  port(outputs, "stats", stats);
  endProgram("update", inputs, outputs);
}

void TinyPlanBuilder::addEval() {
  uint32_t x = tensor(BufferClass::Activation, o.parameters,
                      {o.tokens, o.hidden}, int(programs.size()), 1);
  uint32_t nll = tensor(BufferClass::Output, DType::F32, {o.tokens});
  step(plan::Kernel::Embedding, plan::CreateEmbedding(fb, embed, tokens, x));
  step(plan::Kernel::LinearCrossEntropy,
       plan::CreateLinearCrossEntropy(fb, x, head, labels, nll, -100));
  std::vector<flatbuffers::Offset<plan::Port>> inputs, outputs;
  port(inputs, "tokens", tokens);
  port(inputs, "labels", labels);
  port(outputs, "nll", nll);
  endProgram("eval", inputs, outputs);
}

uint32_t TinyPlanBuilder::addWorkspace() {
  auto matrix = [](DType dtype, int64_t rows, int64_t columns) {
    return BufferType{dtype, 2, {rows, columns}, {columns, 1}};
  };
  auto vector = [](DType dtype, int64_t size) {
    return BufferType{dtype, 1, {size}, {1}};
  };
  LinearCrossEntropyGradArgs loss;
  static_cast<BufferType &>(loss.x) = matrix(o.parameters, o.tokens, o.hidden);
  static_cast<BufferType &>(loss.weight) =
      matrix(o.parameters, o.vocab, o.hidden);
  static_cast<BufferType &>(loss.labels) = vector(DType::I32, o.tokens);
  static_cast<BufferType &>(loss.dnll) = vector(DType::F32, o.tokens);
  static_cast<BufferType &>(loss.nll) = vector(DType::F32, o.tokens);
  static_cast<BufferType &>(loss.dx) = loss.x;
  static_cast<BufferType &>(loss.dweight) =
      matrix(DType::F32, o.vocab, o.hidden);
  LinearCrossEntropyArgs forward;
  forward.x = loss.x;
  forward.weight = loss.weight;
  forward.labels = loss.labels;
  forward.nll = loss.nll;
  EmbeddingGradArgs embedding;
  embedding.dout = loss.dx;
  embedding.ids = loss.labels;
  embedding.dtable = loss.dweight;
  embedding.accumulate = true;
  GradNormArgs norm;
  for (int i = 0; i < 2; ++i) {
    norm.grads.emplace_back();
    static_cast<BufferType &>(norm.grads.back()) = loss.dweight;
  }
  TargetKind target = *targetKind(o.target);
  return buffer(std::max({int64_t(64), workspaceBytes(target, loss),
                          workspaceBytes(target, forward),
                          workspaceBytes(target, embedding),
                          workspaceBytes(target, norm)}),
                BufferClass::Workspace);
}

/// The launches of the update have one on a GPU.
uint64_t TinyPlanBuilder::tableBytes() const {
  if (targetKind(o.target) != TargetKind::Cuda)
    return 0;
  BufferType type{DType::F32, 2, {o.vocab, o.hidden}, {o.hidden, 1}};
  GradNormArgs norm;
  norm.grads = {{type}, {type}};
  AdamWArgs adamw;
  adamw.params = {{type}};
  return uint64_t(cuda::tableBytes(norm) + 2 * cuda::tableBytes(adamw));
}

uint64_t
TinyPlanBuilder::arenaBytes(std::initializer_list<BufferClass> classes) const {
  uint64_t bytes = 0;
  for (const plan::Arena &arena : arenas)
    if (std::count(classes.begin(), classes.end(), arena.holds()))
      bytes += arena.size();
  return bytes;
}

std::string TinyPlanBuilder::build() {
  addInputs();
  addParameters();
  addMicroStep("micro_step", true);
  addMicroStep("first_micro_step", false);
  addUpdate();
  if (o.withEval)
    addEval();
  uint32_t workspace = addWorkspace();
  auto forecast = plan::CreateForecast(
      fb, arenaBytes({BufferClass::Parameter}),
      arenaBytes({BufferClass::Gradient}),
      arenaBytes(
          {BufferClass::Moment1, BufferClass::Moment2, BufferClass::Master}),
      arenaBytes({BufferClass::Activation}),
      arenaBytes({BufferClass::Workspace}),
      arenaBytes({BufferClass::Input, BufferClass::Output}), 0, tableBytes());
  std::vector<flatbuffers::Offset<plan::Fact>> model = {
      plan::CreateFactDirect(fb, "model_type", "bigram")};
  std::vector<flatbuffers::Offset<plan::FlopsTerm>> flops = {
      plan::CreateFlopsTermDirect(fb, "lm_head",
                                  6.0 * double(o.vocab * o.hidden), 0)};
  auto root = plan::CreatePlanDirect(
      fb, planSchemaVersion, kernelAbiVersion, "0.0", "--by-hand",
      o.target.c_str(), 1, uint64_t(o.tokens), uint64_t(o.documents),
      uint64_t(o.vocab), &model, &flops, forecast, &arenas, &buffers, &types,
      &views, &parameters, &programs, nullptr, 0, workspace);
  plan::FinishPlanBuffer(fb, root);
  auto bytes = std::as_bytes(std::span(fb.GetBufferPointer(), fb.GetSize()));
  return std::string(reinterpret_cast<const char *>(bytes.data()),
                     bytes.size()) +
         planTrailer(bytes);
}

} // namespace

std::string qwen::makeTinyPlan(const TinyPlanOptions &options) {
  return TinyPlanBuilder(options).build();
}
