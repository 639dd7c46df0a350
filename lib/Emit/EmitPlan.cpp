//===- EmitPlan.cpp - From plan dialect to plan file ----------------------===//
//
// Numbers the ops in order and writes table after table.
//
//===----------------------------------------------------------------------===//

#include "lib/Emit/EmitPlan.h"
#include "dialects/Kernel/KernelStreams.h"
#include "dialects/Plan/Plan.h"
#include "lib/Emit/SerializeKernel.h"
#include "qwen/Plan/KernelAbi.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/PlanFile.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace qwen;

namespace {

template <typename T> using Offset = flatbuffers::Offset<T>;

/// Text of an attribute for reports: strings without quotes.
std::string factText(Attribute value) {
  if (auto text = dyn_cast<StringAttr>(value))
    return text.str();
  if (auto flag = dyn_cast<BoolAttr>(value))
    return flag.getValue() ? "true" : "false";
  if (auto number = dyn_cast<IntegerAttr>(value))
    return std::to_string(number.getInt());
  std::string result;
  llvm::raw_string_ostream(result) << value;
  return result;
}

plan::TensorType toPlanType(const BufferType &type) {
  return plan::TensorType(
      flatbuffers::span<const int64_t, 4>(type.shape.data(), 4),
      flatbuffers::span<const int64_t, 4>(type.strides.data(), 4),
      static_cast<plan::ElementType>(type.dtype),
      static_cast<uint8_t>(type.rank));
}

static_assert(parameterInitNames.size() ==
                      static_cast<size_t>(plan::Init::MAX) + 1 &&
                  static_cast<int>(ParameterInit::ALog) ==
                      static_cast<int>(plan::Init::ALog),
              "the schema numbers the initialisations as ParameterInit does");

plan::Init toInit(StringRef text) {
  // The verifier of plan.parameter knows the name.
  return static_cast<plan::Init>(*parameterInitByName(text));
}

class Emitter {
public:
  Emitter(ModuleOp module, const EmitOptions &options)
      : module(module), options(options) {}

  FailureOr<std::string> run();

private:
  void numberMemory();
  uint32_t typeId(const BufferType &type);
  uint32_t viewId(Value view) { return view ? viewIds.at(view) : noPlanId; }
  uint32_t labelId(Operation *launch);

  Offset<plan::Program> emitProgram(plan::ProgramOp program);
  Offset<plan::Bucket> emitBucket(plan::BucketOp bucket);
  Offset<plan::Parameter> emitParameter(plan::ParameterOp parameter);
  flatbuffers::Offset<flatbuffers::Vector<Offset<plan::Port>>>
  emitPorts(ArrayAttr names, ValueRange views);
  Offset<plan::CodeSymbol> emitCodeSymbol(kernel::CodeSymbolAttr symbol);
  Offset<plan::Code> emitCode();
  uint64_t tableBytes();
  Offset<plan::Forecast> emitForecast();
  Offset<plan::Plan> emitRoot(plan::HeaderOp header);

  ModuleOp module;
  const EmitOptions &options;
  flatbuffers::FlatBufferBuilder builder{1 << 20};
  std::vector<plan::Arena> arenas;
  std::vector<plan::Buffer> buffers;
  std::vector<plan::TensorType> types;
  std::vector<plan::View> views;
  llvm::StringMap<uint32_t> arenaIds, programIds, labelIds, bucketIds;
  std::vector<std::string> labels;
  llvm::DenseMap<Value, uint32_t> bufferIds, viewIds;
  std::map<std::pair<std::array<int64_t, 8>, std::pair<int, int>>, uint32_t>
      typeIds;
  uint32_t workspace = noPlanId;
  uint64_t codeBytes = 0;
  TargetKind kind = TargetKind::Cpu;
};

uint32_t Emitter::typeId(const BufferType &type) {
  std::array<int64_t, 8> numbers;
  llvm::copy(type.shape, numbers.begin());
  llvm::copy(type.strides, numbers.begin() + 4);
  auto [entry, isNew] = typeIds.try_emplace(
      {numbers, {static_cast<int>(type.dtype), type.rank}}, types.size());
  if (isNew)
    types.push_back(toPlanType(type));
  return entry->second;
}

uint32_t Emitter::labelId(Operation *launch) {
  auto label = launch->getAttrOfType<StringAttr>("qwen.label");
  if (!label)
    return noPlanId;
  auto [entry, isNew] = labelIds.try_emplace(label.getValue(), labels.size());
  if (isNew)
    labels.push_back(label.str());
  return entry->second;
}

/// Fills the tables of arenas, buffers, types and views.
void Emitter::numberMemory() {
  for (auto program : module.getOps<plan::ProgramOp>())
    programIds.try_emplace(program.getSymName(), programIds.size());
  for (Operation &op : *module.getBody()) {
    if (auto arena = dyn_cast<plan::ArenaOp>(op)) {
      arenaIds[arena.getSymName()] = arenas.size();
      arenas.emplace_back(arena.getSize(),
                          static_cast<plan::BufferClass>(arena.getHolds()));
    } else if (auto buffer = dyn_cast<plan::BufferOp>(op)) {
      bufferIds[buffer] = buffers.size();
      auto program = buffer.getProgram();
      buffers.emplace_back(
          buffer.getOffset(), buffer.getSize(),
          arenaIds.lookup(buffer.getArena()),
          program ? static_cast<int32_t>(programIds.lookup(*program)) : -1,
          static_cast<uint32_t>(buffer.getFirst().value_or(0)),
          static_cast<uint32_t>(buffer.getLast().value_or(0)));
    } else if (auto view = dyn_cast<plan::ViewOp>(op)) {
      viewIds[view] = views.size();
      views.emplace_back(bufferIds.lookup(view.getBuffer()),
                         typeId(kernel::toBufferType(view.getView())),
                         view.getByteOffset());
    } else if (auto scratch = dyn_cast<plan::WorkspaceOp>(op)) {
      workspace = bufferIds.lookup(scratch.getBuffer());
    }
  }
}

flatbuffers::Offset<flatbuffers::Vector<Offset<plan::Port>>>
Emitter::emitPorts(ArrayAttr names, ValueRange operands) {
  std::vector<Offset<plan::Port>> ports;
  for (auto [name, operand] :
       llvm::zip_equal(names.getAsRange<StringAttr>(), operands))
    ports.push_back(plan::CreatePort(
        builder, builder.CreateSharedString(name.str()), viewId(operand)));
  return builder.CreateVector(ports);
}

Offset<plan::Program> Emitter::emitProgram(plan::ProgramOp program) {
  std::vector<Offset<plan::Step>> steps;
  for (Operation &launch : program.getBody().front()) {
    SerializedKernel table = serializeKernel(
        &launch, builder, [&](Value view) { return viewId(view); });
    ArrayRef<int64_t> waits = kernel::waitsOf(&launch);
    // Absent where there are none.
    flatbuffers::Offset<flatbuffers::Vector<uint32_t>> waitTable;
    if (!waits.empty())
      waitTable = builder.CreateVector(
          std::vector<uint32_t>(waits.begin(), waits.end()));
    steps.push_back(
        plan::CreateStep(builder, table.type, table.table,
                         static_cast<uint8_t>(kernel::streamOf(&launch)),
                         labelId(&launch), waitTable));
  }
  auto inputs = emitPorts(program.getInputNames(), program.getInputs());
  auto outputs = emitPorts(program.getOutputNames(), program.getOutputs());
  auto name = builder.CreateString(program.getSymName().str());
  return plan::CreateProgram(builder, name, inputs, outputs,
                             builder.CreateVector(steps));
}

Offset<plan::Bucket> Emitter::emitBucket(plan::BucketOp bucket) {
  auto name = builder.CreateString(bucket.getName().str());
  DType dtype = kernel::toBufferType(bucket.getValue()).dtype;
  return plan::CreateBucket(
      builder, name, static_cast<plan::ElementType>(dtype),
      bucket.getElements(), viewId(bucket.getValue()),
      viewId(bucket.getGradient()), viewId(bucket.getMoment1()),
      viewId(bucket.getMoment2()), viewId(bucket.getMaster()));
}

/// Number and place of its bucket, and the type that no view has.
struct BucketPlace {
  uint32_t bucket = noPlanId;
  uint64_t offset = 0;
  uint32_t type = noPlanId;
};

Offset<plan::Parameter> Emitter::emitParameter(plan::ParameterOp parameter) {
  auto name = builder.CreateString(parameter.getName().str());
  BucketPlace place;
  if (std::optional<StringRef> bucket = parameter.getBucket()) {
    auto type = cast<RankedTensorType>(*parameter.getType());
    place = {bucketIds.at(*bucket), *parameter.getBucketOffset(),
             typeId(kernel::toBufferType(
                 MemRefType::get(type.getShape(), type.getElementType())))};
  }
  return plan::CreateParameter(
      builder, name, viewId(parameter.getValue()),
      viewId(parameter.getGradient()), viewId(parameter.getMoment1()),
      viewId(parameter.getMoment2()), viewId(parameter.getMaster()),
      toInit(parameter.getInit()), parameter.getStd().convertToDouble(),
      parameter.getDecay(), static_cast<uint32_t>(parameter.getStack()),
      static_cast<uint32_t>(parameter.getStackIndex()), place.bucket,
      place.offset, place.type);
}

Offset<plan::CodeSymbol>
Emitter::emitCodeSymbol(kernel::CodeSymbolAttr symbol) {
  std::vector<plan::CodeOperand> operands;
  for (auto [bytes, alignment] :
       llvm::zip_equal(symbol.getOperandBytes(), symbol.getOperandAlignments()))
    operands.emplace_back(bytes, static_cast<uint32_t>(alignment));
  std::vector<uint32_t> sums(symbol.getColumnSums().begin(),
                             symbol.getColumnSums().end());
  return plan::CreateCodeSymbol(
      builder, builder.CreateString(symbol.getName().str()),
      builder.CreateVectorOfStructs(operands), builder.CreateVector(sums),
      symbol.getRows(), symbol.getThreads(), symbol.getBlocks(),
      symbol.getSharedBytes());
}

Offset<plan::Code> Emitter::emitCode() {
  for (auto binary : module.getOps<kernel::BinaryOp>()) {
    StringRef object = binary.getObject();
    codeBytes = object.size();
    auto bytes = builder.CreateVector(
        reinterpret_cast<const uint8_t *>(object.data()), object.size());
    std::vector<Offset<plan::CodeSymbol>> symbols;
    for (Attribute symbol : binary.getSymbols())
      symbols.push_back(emitCodeSymbol(cast<kernel::CodeSymbolAttr>(symbol)));
    return plan::CreateCode(builder,
                            builder.CreateString(binary.getTarget().str()),
                            bytes, builder.CreateVector(symbols));
  }
  return 0;
}

/// Device tables that the runtime fills once.
uint64_t Emitter::tableBytes() {
  uint64_t total = 0;
  for (auto program : module.getOps<plan::ProgramOp>())
    for (auto launch :
         program.getBody().front().getOps<kernel::KernelOpInterface>())
      total += launch.getTableBytes(kind);
  return total;
}

Offset<plan::Forecast> Emitter::emitForecast() {
  uint64_t sums[plan::getMaxEnumValForMemoryClass() + 1] = {};
  for (const plan::Arena &arena : arenas)
    sums[static_cast<int>(arena.holds())] += arena.size();
  auto sum = [&](plan::MemoryClass c) { return sums[static_cast<int>(c)]; };
  using enum plan::MemoryClass;
  return plan::CreateForecast(
      builder, sum(Parameter), sum(Gradient),
      sum(Moment1) + sum(Moment2) + sum(Master), sum(Activation),
      sum(Workspace), sum(Input) + sum(Output), codeBytes, tableBytes());
}

Offset<plan::Plan> Emitter::emitRoot(plan::HeaderOp header) {
  numberMemory();
  std::vector<Offset<plan::Program>> programs;
  for (auto program : module.getOps<plan::ProgramOp>())
    programs.push_back(emitProgram(program));
  std::vector<Offset<plan::Bucket>> buckets;
  for (auto bucket : module.getOps<plan::BucketOp>()) {
    bucketIds[bucket.getName()] = buckets.size();
    buckets.push_back(emitBucket(bucket));
  }
  std::vector<Offset<plan::Parameter>> parameters;
  for (auto parameter : module.getOps<plan::ParameterOp>())
    parameters.push_back(emitParameter(parameter));
  std::vector<Offset<plan::Fact>> facts;
  if (DictionaryAttr model = header.getModelAttr())
    for (NamedAttribute fact : model)
      facts.push_back(
          plan::CreateFact(builder, builder.CreateString(fact.getName().str()),
                           builder.CreateString(factText(fact.getValue()))));
  std::vector<Offset<plan::FlopsTerm>> flops;
  if (DictionaryAttr terms = header.getFlopsAttr())
    for (NamedAttribute term : terms) {
      auto pair = cast<ArrayAttr>(term.getValue());
      flops.push_back(plan::CreateFlopsTerm(
          builder, builder.CreateString(term.getName().str()),
          cast<FloatAttr>(pair[0]).getValueAsDouble(),
          cast<FloatAttr>(pair[1]).getValueAsDouble()));
    }
  auto code = emitCode();
  auto version = builder.CreateString(options.compilerVersion);
  auto flags = builder.CreateString(options.compilerFlags);
  auto target = builder.CreateString(header.getTarget().str());
  auto forecast = emitForecast();
  auto modelTable = builder.CreateVector(facts);
  auto flopsTable = builder.CreateVector(flops);
  auto arenaTable = builder.CreateVectorOfStructs(arenas);
  auto bufferTable = builder.CreateVectorOfStructs(buffers);
  auto typeTable = builder.CreateVectorOfStructs(types);
  auto viewTable = builder.CreateVectorOfStructs(views);
  auto parameterTable = builder.CreateVector(parameters);
  auto programTable = builder.CreateVector(programs);
  auto labelTable = builder.CreateVectorOfStrings(labels);
  // Absent where there is one rank.
  auto bucketTable = buckets.empty() ? decltype(builder.CreateVector(buckets))()
                                     : builder.CreateVector(buckets);
  return plan::CreatePlan(
      builder, planSchemaVersion, kernelAbiVersion, version, flags, target,
      static_cast<uint32_t>(header.getWorldSize()), header.getTokens(),
      header.getMaxDocuments(), header.getVocabSize(), modelTable, flopsTable,
      forecast, arenaTable, bufferTable, typeTable, viewTable, parameterTable,
      programTable, labelTable, code, workspace, bucketTable);
}

FailureOr<std::string> Emitter::run() {
  auto headers = module.getOps<plan::HeaderOp>();
  if (headers.empty())
    return module.emitError("has no plan.header; run qwen-schedule first");
  plan::HeaderOp header = *headers.begin();
  std::optional<TargetKind> known = targetKind(header.getTarget());
  if (!known)
    return header.emitOpError()
           << "names the unknown target '" << header.getTarget()
           << "'; there are " << listTargets();
  kind = *known;
  plan::FinishPlanBuffer(builder, emitRoot(header));
  std::string bytes(reinterpret_cast<const char *>(builder.GetBufferPointer()),
                    builder.GetSize());
  bytes += planTrailer(std::as_bytes(std::span(bytes)));
  auto plan = Plan::parse(std::as_bytes(std::span(bytes)), "emitted plan");
  if (!plan.ok())
    return module.emitError() << plan.status().message();
  return bytes;
}

} // namespace

FailureOr<std::string> qwen::emitPlan(ModuleOp module,
                                      const EmitOptions &options) {
  return Emitter(module, options).run();
}
