//===- PrintPlan.cpp - A plan as text -------------------------------------===//
//
// Only formats; the numbers come from the plan and LaunchFacts.
//
//===----------------------------------------------------------------------===//

#include "PrintPlan.h"
#include "Collectives.h"
#include "qwen/Plan/Kernels.h"
#include "qwen/Plan/Streams.h"
#include "qwen/Plan/plan_generated.h"
#include "qwen/Support/Saturating.h"
#include "runtime/profile/LaunchFacts.h"
#include "runtime/support/Json.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <iterator>
#include <map>

using namespace qwen;

namespace {

using Text = std::back_insert_iterator<std::string>;

/// "1.50 GiB", exact below 1 KiB.
std::string readable(int64_t bytes) {
  constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit)
    value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes)
                   : fmt::format("{:.2f} {}", value, units[unit]);
}

/// "1.23 TFLOP".
std::string readableFlops(double flops) {
  constexpr const char *units[] = {"FLOP",  "KFLOP", "MFLOP",
                                   "GFLOP", "TFLOP", "PFLOP"};
  int unit = 0;
  for (; flops >= 1000 && unit < 5; ++unit)
    flops /= 1000;
  return fmt::format("{:.4g} {}", flops, units[unit]);
}

int64_t parameterElements(const Plan &plan) {
  int64_t elements = 0;
  for (const PlanParameter &parameter : plan.parameters())
    elements = saturatingAdd(elements, parameter.type.elements());
  return elements;
}

struct NamedBytes {
  const char *name;
  int64_t bytes;
};
std::vector<NamedBytes> forecastRows(const PlanForecast &f) {
  return {{"parameters", f.parameters},
          {"gradients", f.gradients},
          {"optimizer", f.optimizer},
          {"activations", f.activations},
          {"workspace", f.workspace},
          {"io", f.io},
          {"code", f.code},
          {"tables", f.tables},
          {"total", f.total()}};
}

/// Work of a program by kernel.
struct KernelTotals {
  int64_t launches = 0, flops = 0, bytes = 0;
};
std::map<std::string, KernelTotals> totalsByKernel(const Plan &plan, int p) {
  std::map<std::string, KernelTotals> totals;
  for (const LaunchFacts &launch : launchFacts(plan, p)) {
    KernelTotals &entry = totals[launch.kernel];
    ++entry.launches;
    entry.flops = saturatingAdd(entry.flops, launch.flops);
    entry.bytes = saturatingAdd(entry.bytes, launch.bytes);
  }
  return totals;
}

void printModel(const PlanInfo &info, Text out) {
  fmt::format_to(out, "target                {}\n", printable(info.target));
  fmt::format_to(out, "compiler              qwenc {}\n",
                 printable(info.compilerVersion));
  fmt::format_to(out, "flags                 {}\n",
                 printable(info.compilerFlags, 400));
  fmt::format_to(out, "format                {}, kernel tables {:016x}\n",
                 info.schemaVersion, info.kernelAbi);
  fmt::format_to(out, "content hash          {:016x}\n", info.contentHash);
  fmt::format_to(out, "micro-batch           {} tokens, at most {} documents\n",
                 info.tokens, info.maxDocuments);
  for (const PlanFact &fact : info.model)
    fmt::format_to(out, "{:<21} {}\n", printable(fact.name),
                   printable(fact.text));
}

void printFlops(const PlanInfo &info, Text out) {
  fmt::format_to(out, "\nmodel FLOPs of a trained token\n");
  for (const PlanFlopsTerm &term : info.flops) {
    fmt::format_to(out, "  {:<14} {:.6g}", printable(term.name), term.perToken);
    if (term.perTokenContext != 0)
      fmt::format_to(out, " + {:.6g} for each token before it in its document",
                     term.perTokenContext);
    fmt::format_to(out, "\n");
  }
}

/// Buckets, and what a run of each program gathers and scatters.
void printRanks(const Plan &plan, Text out) {
  fmt::format_to(out, "\nranks {}, {} buckets\n", plan.info().worldSize,
                 plan.buckets().size());
  fmt::format_to(out, "  {:<44} {:<5} {:>12} {:>12} {:>12}\n", "bucket", "type",
                 "elements", "on a rank", "gathered");
  for (const PlanBucket &bucket : plan.buckets())
    fmt::format_to(out, "  {:<44} {:<5} {:>12} {:>12} {:>12}\n",
                   printable(bucket.name), dtypeName(bucket.dtype),
                   bucket.elements, bucket.shardElements,
                   readable(bucket.elements * dtypeBytes(bucket.dtype)));
  for (size_t p = 0; p < plan.programs().size(); ++p) {
    int64_t gathers = 0, gathered = 0, scatters = 0, scattered = 0;
    for (const LaunchFacts &launch : launchFacts(plan, static_cast<int>(p))) {
      if (launch.kernel == AllGatherArgs::kernelName) {
        ++gathers;
        gathered += largestOperand(launch);
      } else if (launch.kernel == ReduceScatterArgs::kernelName) {
        ++scatters;
        scattered += largestOperand(launch);
      }
    }
    fmt::format_to(out, "  {:<14} {} gathers of {}, {} scatters of {}\n",
                   printable(plan.programs()[p].name), gathers,
                   readable(gathered), scatters, readable(scattered));
  }
}

void printPrograms(const Plan &plan, Text out) {
  for (size_t p = 0; p < plan.programs().size(); ++p) {
    const PlanProgram &program = plan.programs()[p];
    fmt::format_to(out, "\nprogram {}: {} launches\n", printable(program.name),
                   program.launches);
    fmt::format_to(out, "  {:<26} {:>8} {:>14} {:>12}\n", "kernel", "launches",
                   "FLOPs", "traffic");
    for (auto &[kernel, totals] : totalsByKernel(plan, static_cast<int>(p)))
      fmt::format_to(out, "  {:<26} {:>8} {:>14} {:>12}\n", kernel,
                     totals.launches,
                     totals.flops ? readableFlops(double(totals.flops)) : "-",
                     readable(totals.bytes));
  }
}

void printPorts(const char *title, const std::vector<PlanPort> &ports,
                Text out) {
  for (const PlanPort &port : ports)
    fmt::format_to(out, "  {} {:<14} {} in buffer {} at {}\n", title,
                   printable(port.name), toString(port.place.type),
                   port.place.buffer, port.place.byteOffset);
}

void printOperands(const LaunchFacts &launch, Text out) {
  for (const LaunchOperand &operand : launch.operands)
    fmt::format_to(out, "        {:<3} {:<10} view {:<5} {}\n",
                   operand.reads ? (operand.writes ? "rw" : "r") : "w",
                   operand.name, operand.view, toString(operand.type));
}

/// ", stream 1, waits for 3" where it is so.
void printPlace(const plan::Step &step, Text out) {
  if (step.stream() != computeStream)
    fmt::format_to(out, ", stream {}", step.stream());
  if (step.waits() && step.waits()->size() > 0)
    fmt::format_to(out, ", waits for {}", fmt::join(*step.waits(), ", "));
}

/// The collectives of a program, and what runs beside them.
void printCollectives(const Plan &plan, int program,
                      const std::vector<LaunchFacts> &launches, Text out) {
  auto collectives = collectiveFacts(plan, program, launches);
  if (collectives.empty())
    return;
  fmt::format_to(out,
                 "collectives of {}: the launch that waits for each, and the "
                 "launches of stream 0 before that, which hide it\n"
                 "  {:>5} {:<14} {:<50} {:>11} {:>8} {:>8} {:>12} {:>11}\n",
                 printable(plan.programs()[program].name), "", "kernel",
                 "bucket", "bytes", "waits", "launches", "FLOPs", "traffic");
  for (const CollectiveFacts &facts : collectives)
    fmt::format_to(
        out, "  {:>5} {:<14} {:<50} {:>11} {:>8} {:>8} {:>12} {:>11}\n",
        facts.step, launches[facts.step].kernel,
        facts.bucket.empty() ? "-" : printable(facts.bucket),
        readable(facts.bytes),
        facts.waitedBy < int64_t(launches.size())
            ? std::to_string(facts.waitedBy)
            : "end",
        facts.hiding.launches, readableFlops(double(facts.hiding.flops)),
        readable(facts.hiding.bytes));
}

} // namespace

std::string qwen::summaryText(const Plan &plan) {
  std::string text;
  Text out(text);
  fmt::format_to(out, "plan                  {} ({} bytes)\n",
                 readable(plan.fileBytes()), plan.fileBytes());
  printModel(plan.info(), out);
  fmt::format_to(out, "parameters            {} tensors, {} elements\n",
                 plan.parameters().size(), parameterElements(plan));
  fmt::format_to(out, "\nmemory\n");
  for (const NamedBytes &row : forecastRows(plan.info().forecast))
    fmt::format_to(out, "  {:<14} {:>16} {:>12}\n", row.name, row.bytes,
                   readable(row.bytes));
  printFlops(plan.info(), out);
  if (plan.info().worldSize > 1)
    printRanks(plan, out);
  printPrograms(plan, out);
  return text;
}

std::string qwen::summaryJson(const Plan &plan) {
  const PlanInfo &info = plan.info();
  Json json;
  json["schema_version"] = info.schemaVersion;
  json["kernel_abi"] = fmt::format("{:016x}", info.kernelAbi);
  json["content_hash"] = fmt::format("{:016x}", info.contentHash);
  json["compiler_version"] = info.compilerVersion;
  json["compiler_flags"] = info.compilerFlags;
  json["target"] = info.target;
  json["world_size"] = info.worldSize;
  if (info.worldSize > 1)
    json["buckets"] = plan.buckets().size();
  json["tokens"] = info.tokens;
  json["max_documents"] = info.maxDocuments;
  json["vocab_size"] = info.vocabSize;
  json["file_bytes"] = plan.fileBytes();
  json["model"] = Json::object();
  for (const PlanFact &fact : info.model)
    json["model"][fact.name] = fact.text;
  json["parameters"] = {{"tensors", plan.parameters().size()},
                        {"elements", parameterElements(plan)}};
  json["memory"] = Json::object();
  for (const NamedBytes &row : forecastRows(info.forecast))
    json["memory"][row.name] = row.bytes;
  json["flops"] = Json::object();
  for (const PlanFlopsTerm &term : info.flops)
    json["flops"][term.name] = {{"per_token", term.perToken},
                                {"per_token_context", term.perTokenContext}};
  json["programs"] = Json::object();
  for (size_t p = 0; p < plan.programs().size(); ++p) {
    Json &entry = json["programs"][plan.programs()[p].name];
    entry["launches"] = plan.programs()[p].launches;
    entry["kernels"] = Json::object();
    for (auto &[kernel, totals] : totalsByKernel(plan, static_cast<int>(p)))
      entry["kernels"][kernel] = {{"launches", totals.launches},
                                  {"flops", totals.flops},
                                  {"bytes", totals.bytes}};
  }
  // Text of outside origin may be no UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string qwen::memoryMap(const Plan &plan) {
  const plan::Plan &raw = plan.raw();
  std::string text;
  Text out(text);
  fmt::format_to(out, "arenas\n");
  if (raw.arenas())
    for (uint32_t i = 0; i < raw.arenas()->size(); ++i) {
      const plan::Arena &arena = *raw.arenas()->Get(i);
      fmt::format_to(out, "  {:<3} {:<12} {:>16} {:>12}\n", i,
                     plan::EnumNameBufferClass(arena.holds()), arena.size(),
                     readable(static_cast<int64_t>(arena.size())));
    }
  fmt::format_to(out, "\nparameters\n");
  for (const PlanParameter &parameter : plan.parameters()) {
    if (parameter.bucket >= 0) {
      fmt::format_to(out, "  {:<60} {:<24} bucket {} at element {}{}\n",
                     printable(parameter.name), toString(parameter.type),
                     parameter.bucket, parameter.bucketOffset,
                     parameter.decay ? " decay" : "");
      continue;
    }
    fmt::format_to(out, "  {:<60} {:<24} stack {}[{}] buffer {} at {}{}\n",
                   printable(parameter.name), toString(parameter.type),
                   parameter.stack, parameter.stackIndex,
                   parameter.value.buffer, parameter.value.byteOffset,
                   parameter.decay ? " decay" : "");
  }
  for (const PlanProgram &program : plan.programs()) {
    fmt::format_to(out, "\nprogram {}\n", printable(program.name));
    printPorts("input ", program.inputs, out);
    printPorts("output", program.outputs, out);
  }
  fmt::format_to(out, "\nbuffers (arena, offset, bytes, program and steps)\n");
  if (raw.buffers())
    for (uint32_t i = 0; i < raw.buffers()->size(); ++i) {
      const plan::Buffer &buffer = *raw.buffers()->Get(i);
      fmt::format_to(out, "  {:<5} {:<3} {:>14} {:>14}", i, buffer.arena(),
                     buffer.offset(), buffer.size());
      if (buffer.program() >= 0)
        fmt::format_to(out, "  {} {}..{}",
                       printable(plan.programs()[buffer.program()].name),
                       buffer.first(), buffer.last());
      fmt::format_to(out, "\n");
    }
  return text;
}

std::string qwen::launchList(const Plan &plan, int program) {
  std::string text;
  Text out(text);
  fmt::format_to(out, "program {}\n", printable(plan.programs()[program].name));
  std::vector<LaunchFacts> launches = launchFacts(plan, program);
  const auto *steps = plan.raw().programs()->Get(uint32_t(program))->steps();
  for (size_t i = 0; i < launches.size(); ++i) {
    const LaunchFacts &launch = launches[i];
    fmt::format_to(out, "{:>5} {}", i, launch.kernel);
    if (!launch.symbol.empty())
      fmt::format_to(out, " @{}", printable(launch.symbol));
    if (!launch.label.empty())
      fmt::format_to(out, " ({})", printable(launch.label));
    fmt::format_to(out, ", {}, {}",
                   launch.flopsPerPair > 0
                       ? "FLOPs by documents"
                       : readableFlops(double(launch.flops)),
                   readable(launch.bytes));
    printPlace(*steps->Get(uint32_t(i)), out);
    fmt::format_to(out, "\n");
    printOperands(launch, out);
  }
  printCollectives(plan, program, launches, out);
  return text;
}
