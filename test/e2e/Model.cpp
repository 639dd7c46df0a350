//===- Model.cpp - A plan that a test drives by hand ----------------------===//

#include "Model.h"

#include "DrawnWeights.h"

#include "runtime/checkpoint/Cast.h"
#include "runtime/trainer/PlanEngine.h"

#include <cstring>
#include <filesystem>

using namespace qwen;
using namespace qwen::e2e;

StatusOr<Model> Model::create(const Plan &plan, int threads) {
  ExecutorOptions options;
  options.threads = threads;
  options.hugePages = false;
  options.poison = true;
  return create(plan, options);
}

StatusOr<Model> Model::create(const Plan &plan,
                              const ExecutorOptions &options) {
  for (const char *program :
       {"first_micro_step", "micro_step", "update", "eval"})
    if (!plan.findProgram(program))
      return makeError(StatusCode::Internal, "the plan has no program '{}'",
                       program);
  QWEN_ASSIGN_OR_RETURN(auto executor, Executor::create(plan, options));
  return Model(std::move(executor));
}

StatusOr<Model> Model::build(const PlanSpec &spec, int threads) {
  QWEN_ASSIGN_OR_RETURN(Plan plan, compilePlan(spec));
  return create(plan, threads);
}

Status Model::load(const std::string &folder) {
  QWEN_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(folder));
  std::vector<ParameterView> all = parameterViews(*executor);
  return loadParameters(checkpoint, all, {}, executor->ranks()).status();
}

Status Model::save(const std::string &folder) {
  std::vector<ParameterView> all = parameterViews(*executor);
  QWEN_RETURN_IF_ERROR(saveParameters(folder, nullptr, all, defaultShardBytes,
                                      executor->ranks()));
  QWEN_ASSIGN_OR_RETURN(Checkpoint saved, Checkpoint::open(folder));
  return saveOptimizerState(folder, saved, all, defaultShardBytes,
                            executor->ranks());
}

Status Model::resume(const std::string &folder) {
  QWEN_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(folder));
  std::vector<ParameterView> all = parameterViews(*executor);
  QWEN_RETURN_IF_ERROR(
      loadParameters(checkpoint, all, {}, executor->ranks()).status());
  return loadOptimizerState(folder, all, executor->ranks()).status();
}

int64_t Model::firstElement(const std::string &parameter) const {
  return executor->firstElement(*executor->plan().findParameter(parameter));
}

Status Model::write(const Buffer &target, std::span<const float> values) {
  if (int64_t(values.size()) != target.elements())
    return makeError(StatusCode::InvalidArgument,
                     "expected {} elements, found {}", target.elements(),
                     values.size());
  std::vector<std::byte> bytes(size_t(target.bytes()));
  Buffer host = target;
  host.data = bytes.data();
  loadElements(FileDType::F32, std::as_bytes(values), host);
  return executor->memory().copyToDevice(target.data, bytes.data(),
                                         target.bytes());
}

Status Model::setWeights(const Tensors &weights) {
  auto parameters = executor->plan().parameters();
  for (int i = 0; i < int(parameters.size()); ++i) {
    auto found = weights.find(parameters[size_t(i)].name);
    if (found == weights.end())
      return makeError(StatusCode::NotFound, "no weight {}",
                       parameters[size_t(i)].name);
    Buffer value = executor->parameter(i);
    auto first = size_t(executor->firstElement(i));
    std::span<const float> whole = found->second;
    if (first + size_t(value.elements()) > whole.size())
      return makeError(StatusCode::InvalidArgument,
                       "{}: expected {} elements and more, found {}",
                       found->first, first + size_t(value.elements()),
                       whole.size());
    std::span<const float> slice =
        executor->ranks().size() == 1
            ? whole
            : whole.subspan(first, size_t(value.elements()));
    QWEN_RETURN_IF_ERROR(write(value, slice));
    if (Buffer master = executor->master(i); master.data)
      QWEN_RETURN_IF_ERROR(write(master, slice));
  }
  return okStatus();
}

Tensors qwen::e2e::drawWeights(const Plan &plan, uint32_t seed,
                               int64_t keyRows) {
  Tensors weights;
  for (const PlanParameter &parameter : plan.parameters()) {
    const BufferType &type = parameter.type;
    std::span<const int64_t> shape(type.shape.begin(), size_t(type.rank));
    weights[parameter.name] = drawWeight(parameter.name, shape, seed, keyRows);
  }
  return weights;
}

Status Model::drawWeights(uint32_t seed, int64_t keyRows) {
  return setWeights(e2e::drawWeights(executor->plan(), seed, keyRows));
}

Status Model::setGradients(const Tensors &gradients) {
  isFirst = false;
  for (const auto &[name, values] : gradients) {
    std::optional<int> index = executor->plan().findParameter(name);
    if (!index)
      return makeError(StatusCode::NotFound, "no parameter {}", name);
    QWEN_RETURN_IF_ERROR(write(executor->gradient(*index), values));
  }
  return okStatus();
}

PackLimits Model::limits() const {
  return {executor->plan().info().tokens, executor->plan().info().maxDocuments};
}

int32_t Model::vocabulary() const {
  return int32_t(executor->plan().info().vocabSize);
}

std::vector<std::string> Model::matrices() const {
  std::vector<std::string> names;
  for (const PlanParameter &parameter : executor->plan().parameters())
    if (parameter.type.rank == 2)
      names.push_back(parameter.name);
  return names;
}

void Model::setInput(const char *name, const void *values, size_t bytes) {
  std::optional<Buffer> input = executor->input(name);
  ASSERT_TRUE(input) << "the plan has no input " << name;
  ASSERT_EQ(size_t(input->bytes()), bytes) << name;
  std::memcpy(input->data, values, bytes);
}

int Model::runOn(const char *program, const Batch &pack) {
  auto set = [&](const char *name, const std::vector<int32_t> &values) {
    setInput(name, values.data(), values.size() * sizeof(int32_t));
  };
  set("tokens", pack.tokens);
  set("labels", pack.labels);
  set("positions", pack.positions);
  set("cu_seqlens", pack.cuSeqlens);
  std::optional<int> index = executor->plan().findProgram(program);
  EXPECT_TRUE(index) << "the plan has no program " << program;
  if (!index)
    return -1;
  Status status = executor->run(*index);
  EXPECT_TRUE(status.ok()) << status.message();
  return *index;
}

std::vector<float> Model::outputOf(int program, const char *name) const {
  if (program < 0)
    return {};
  std::optional<Buffer> output = executor->output(program, name);
  EXPECT_TRUE(output) << "the program has no output " << name;
  return output ? copyOf(*output) : std::vector<float>();
}

std::vector<float> Model::microStep(const Batch &pack, float lossScale) {
  setInput("loss_scale", &lossScale, sizeof(lossScale));
  if (isFirst)
    poisonGradients();
  const char *program = isFirst ? "first_micro_step" : "micro_step";
  isFirst = false;
  return outputOf(runOn(program, pack), "nll");
}

std::vector<float> Model::evaluate(const Batch &pack) {
  return outputOf(runOn("eval", pack), "nll");
}

std::vector<float> Model::logits(const Batch &pack) {
  return outputOf(runOn("logits", pack), "logits");
}

std::array<float, 4> Model::update(const std::array<float, 8> &hyper,
                                   int32_t step) {
  setInput("hyper", hyper.data(), sizeof(hyper));
  const int32_t rng[2] = {1, step};
  setInput("rng", rng, sizeof(rng));
  isFirst = true;
  int program = *executor->plan().findProgram("update");
  Status status = executor->run(program);
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<float> stats = outputOf(program, "stats");
  std::array<float, 4> result{};
  EXPECT_EQ(stats.size(), result.size());
  if (stats.size() == result.size())
    std::copy(stats.begin(), stats.end(), result.begin());
  return result;
}

void Model::poisonGradients() {
  for (int i = 0; i < int(executor->plan().parameters().size()); ++i) {
    Buffer gradient = executor->gradient(i);
    if (!gradient.data)
      continue;
    // All bits set is a NaN of every type.
    std::vector<std::byte> bytes(size_t(gradient.bytes()), std::byte(0xff));
    Status status = executor->memory().copyToDevice(gradient.data, bytes.data(),
                                                    gradient.bytes());
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

Tensors Model::collect(Buffer (Executor::*view)(int) const,
                       const std::string &prefix) const {
  Tensors result;
  auto parameters = executor->plan().parameters();
  for (int i = 0; i < int(parameters.size()); ++i) {
    Buffer buffer = ((*executor).*view)(i);
    if (!buffer.data)
      continue;
    std::vector<std::byte> bytes(size_t(buffer.bytes()));
    Status status = executor->memory().copyToHost(bytes.data(), buffer.data,
                                                  buffer.bytes());
    EXPECT_TRUE(status.ok()) << status.message();
    buffer.data = bytes.data();
    result[prefix + parameters[size_t(i)].name] = copyOf(buffer);
  }
  return result;
}

Tensors Model::gradients() const { return collect(&Executor::gradient, ""); }

Tensors Model::weights() const {
  // Insertion keeps what is there: masters go first.
  Tensors result = collect(&Executor::master, "");
  result.merge(collect(&Executor::parameter, ""));
  return result;
}

Tensors Model::state() const {
  Tensors result = collect(&Executor::parameter, "parameter ");
  result.merge(collect(&Executor::master, "master "));
  result.merge(collect(&Executor::moment1, "moment1 "));
  result.merge(collect(&Executor::moment2, "moment2 "));
  result.merge(collect(&Executor::gradient, "gradient "));
  return result;
}

/// One number of a file of golden inputs.
static StatusOr<int32_t> integerOf(const SafetensorsFile &file,
                                   const char *name) {
  const StoredTensor *tensor = file.find(name);
  if (!tensor || tensor->dtype != FileDType::I32 ||
      tensor->data.size() != sizeof(int32_t))
    return makeError(StatusCode::DataLoss, "{}: expected {}, one i32",
                     file.path(), name);
  int32_t value = 0;
  std::memcpy(&value, tensor->data.data(), sizeof(value));
  return value;
}

Status qwen::e2e::setGoldenWeights(Model &model, const std::string &config) {
  std::string folder = sourcePath("test/golden/" + config);
  if (std::filesystem::exists(folder + "/checkpoint"))
    return model.load(folder + "/checkpoint");
  QWEN_ASSIGN_OR_RETURN(SafetensorsFile inputs,
                        SafetensorsFile::open(folder + "/inputs.safetensors"));
  QWEN_ASSIGN_OR_RETURN(int32_t seed, integerOf(inputs, "seed"));
  QWEN_ASSIGN_OR_RETURN(int32_t keyRows, integerOf(inputs, "key_rows"));
  return model.drawWeights(uint32_t(seed), keyRows);
}

StatusOr<Model> qwen::e2e::goldenModel(const PlanSpec &spec, int threads) {
  QWEN_ASSIGN_OR_RETURN(Model model, Model::build(spec, threads));
  QWEN_RETURN_IF_ERROR(setGoldenWeights(model, spec.config));
  return model;
}
