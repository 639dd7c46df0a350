//===- PlanReader.cpp - Reads and verifies a plan file --------------------===//
//
// File frame, FlatBuffers structure, meaning; then the parts that the trainer
// asks for become plain structs.
//
//===----------------------------------------------------------------------===//

#include "runtime/plan/Plan.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanSteps.h"
#include "runtime/plan/PlanVerifier.h"
#include "runtime/support/File.h"

#include <algorithm>
#include <cstring>
#include <map>

using namespace qwen;

struct Plan::Content {
  /// The FlatBuffer; 8-byte elements keep it aligned.
  std::vector<uint64_t> bytes;
  int64_t fileBytes = 0;
  const plan::Plan *root = nullptr;
  PlanInfo info;
  std::vector<PlanParameter> parameters;
  std::vector<PlanBucket> buckets;
  std::vector<PlanProgram> programs;
  std::map<std::string, int, std::less<>> parameterIndex;
};

namespace {

/// Nesting of the schema is 4; the bounds keep a crafted file from costing
/// stack or time.
constexpr uint32_t maxDepth = 16, maxTables = 4'000'000;

PlanPlace placeOf(const plan::Plan &plan, uint32_t id) {
  if (id == noPlanId)
    return {};
  const plan::View &view = *plan.views()->Get(id);
  return {view.buffer(), static_cast<int64_t>(view.byte_offset()),
          toBufferType(*plan.types()->Get(view.type()))};
}

PlanInfo readInfo(const plan::Plan &plan, uint64_t hash) {
  PlanInfo info;
  info.schemaVersion = plan.schema_version();
  info.kernelAbi = plan.kernel_abi();
  info.contentHash = hash;
  info.compilerVersion = plan.compiler_version()->str();
  info.compilerFlags = plan.compiler_flags()->str();
  info.target = plan.target()->str();
  info.targetKind = *targetKind(info.target);
  info.worldSize = plan.world_size();
  info.tokens = plan.tokens();
  info.maxDocuments = plan.max_documents();
  info.vocabSize = plan.vocab_size();
  if (plan.model())
    for (const plan::Fact *fact : *plan.model())
      info.model.push_back({fact->name()->str(), fact->text()->str()});
  if (plan.flops())
    for (const plan::FlopsTerm *term : *plan.flops())
      info.flops.push_back(
          {term->name()->str(), term->per_token(), term->per_token_context()});
  const plan::Forecast &f = *plan.forecast();
  info.forecast = {static_cast<int64_t>(f.parameters()),
                   static_cast<int64_t>(f.gradients()),
                   static_cast<int64_t>(f.optimizer()),
                   static_cast<int64_t>(f.activations()),
                   static_cast<int64_t>(f.workspace()),
                   static_cast<int64_t>(f.io()),
                   static_cast<int64_t>(f.code()),
                   static_cast<int64_t>(f.tables())};
  return info;
}

std::vector<PlanParameter> readParameters(const plan::Plan &plan) {
  std::vector<PlanParameter> result;
  if (!plan.parameters())
    return result;
  for (const plan::Parameter *table : *plan.parameters()) {
    PlanParameter parameter;
    parameter.name = table->name()->str();
    parameter.value = placeOf(plan, table->value());
    parameter.gradient = placeOf(plan, table->gradient());
    parameter.moment1 = placeOf(plan, table->moment1());
    parameter.moment2 = placeOf(plan, table->moment2());
    parameter.master = placeOf(plan, table->master());
    if (table->bucket() == noPlanId) {
      parameter.type = parameter.value.type;
    } else {
      parameter.type = toBufferType(*plan.types()->Get(table->type()));
      parameter.bucket = table->bucket();
      parameter.bucketOffset = static_cast<int64_t>(table->bucket_offset());
    }
    parameter.decay = table->decay();
    parameter.init = static_cast<ParameterInit>(table->init());
    parameter.initStd = table->init_std();
    parameter.stack = table->stack();
    parameter.stackIndex = table->stack_index();
    result.push_back(std::move(parameter));
  }
  return result;
}

std::vector<PlanBucket> readBuckets(const plan::Plan &plan) {
  std::vector<PlanBucket> result;
  if (!plan.buckets())
    return result;
  for (const plan::Bucket *table : *plan.buckets()) {
    PlanBucket bucket;
    bucket.name = table->name()->str();
    bucket.dtype = static_cast<DType>(table->dtype());
    bucket.elements = static_cast<int64_t>(table->elements());
    bucket.shardElements = bucket.elements / plan.world_size();
    bucket.value = placeOf(plan, table->value());
    bucket.gradient = placeOf(plan, table->gradient());
    bucket.moment1 = placeOf(plan, table->moment1());
    bucket.moment2 = placeOf(plan, table->moment2());
    bucket.master = placeOf(plan, table->master());
    result.push_back(std::move(bucket));
  }
  return result;
}

std::vector<PlanPort>
readPorts(const plan::Plan &plan,
          const flatbuffers::Vector<flatbuffers::Offset<plan::Port>> *ports) {
  std::vector<PlanPort> result;
  if (ports)
    for (const plan::Port *port : *ports)
      result.push_back({port->name()->str(), placeOf(plan, port->view())});
  return result;
}

std::vector<PlanProgram> readPrograms(const plan::Plan &plan) {
  std::vector<PlanProgram> result;
  if (!plan.programs())
    return result;
  for (const plan::Program *table : *plan.programs())
    result.push_back({table->name()->str(), readPorts(plan, table->inputs()),
                      readPorts(plan, table->outputs()),
                      table->steps() ? table->steps()->size() : 0});
  return result;
}

} // namespace

PlanSlice qwen::sliceOf(const PlanParameter &parameter,
                        const PlanBucket &bucket, int64_t rank) {
  int64_t shard = rank * bucket.shardElements, offset = parameter.bucketOffset;
  int64_t begin = std::max(shard, offset);
  int64_t end = std::min(shard + bucket.shardElements,
                         offset + parameter.type.elements());
  if (begin >= end)
    return {};
  return {end - begin, begin - offset, begin - shard};
}

Plan::Plan(std::shared_ptr<const Content> content)
    : content(std::move(content)) {}

StatusOr<Plan> Plan::load(const std::string &path) {
  QWEN_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  return parse(file.bytes(), fmt::format("plan '{}'", path));
}

StatusOr<Plan> Plan::parse(std::span<const std::byte> file,
                           std::string_view what) {
  uint64_t hash = 0;
  auto frame = openPlanFrame(file, hash);
  if (!frame.ok())
    return frame.status().withContext(what);
  std::span<const std::byte> body = *frame;

  auto content = std::make_shared<Content>();
  content->fileBytes = static_cast<int64_t>(file.size());
  content->bytes.resize((body.size() + 7) / 8);
  std::memcpy(content->bytes.data(), body.data(), body.size());
  const auto *begin = reinterpret_cast<const uint8_t *>(content->bytes.data());
  flatbuffers::Verifier verifier(begin, body.size(), maxDepth, maxTables);
  if (!plan::VerifyPlanBuffer(verifier))
    return dataLoss("{}: the structure of the plan is broken", what);
  content->root = plan::GetPlan(begin);
  if (Status status = verifyPlan(*content->root); !status.ok())
    return status.withContext(what);

  content->info = readInfo(*content->root, hash);
  content->parameters = readParameters(*content->root);
  content->buckets = readBuckets(*content->root);
  content->programs = readPrograms(*content->root);
  for (size_t i = 0; i < content->parameters.size(); ++i)
    content->parameterIndex.emplace(content->parameters[i].name, i);
  return Plan(std::move(content));
}

const PlanInfo &Plan::info() const { return content->info; }
std::span<const PlanParameter> Plan::parameters() const {
  return content->parameters;
}
std::span<const PlanBucket> Plan::buckets() const { return content->buckets; }
std::span<const PlanProgram> Plan::programs() const {
  return content->programs;
}
const plan::Plan &Plan::raw() const { return *content->root; }
int64_t Plan::fileBytes() const { return content->fileBytes; }

std::optional<int> Plan::findProgram(std::string_view name) const {
  for (size_t i = 0; i < content->programs.size(); ++i)
    if (content->programs[i].name == name)
      return static_cast<int>(i);
  return std::nullopt;
}

std::optional<int> Plan::findParameter(std::string_view name) const {
  auto found = content->parameterIndex.find(name);
  if (found == content->parameterIndex.end())
    return std::nullopt;
  return found->second;
}

const PlanPort *Plan::findInput(std::string_view name) const {
  for (const PlanProgram &program : content->programs)
    for (const PlanPort &port : program.inputs)
      if (port.name == name)
        return &port;
  return nullptr;
}
