//===- BigramEngine.h - A model of a few lines for the trainer -*- C++ -*-===//
//
// Logits of the next token are a row of a table; its gradient and AdamW are
// written out. Stands in for a plan where the trainer's own rules are tested.
// As a device it runs nothing before it has to, and its memory is a FakeDevice.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_UNIT_RUNTIME_BIGRAMENGINE_H
#define QWEN_TEST_UNIT_RUNTIME_BIGRAMENGINE_H

#include "FakeDevice.h"
#include "qwen/Plan/Contiguous.h"
#include "runtime/trainer/Engine.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <vector>

namespace qwen {

class BigramEngine final : public Engine {
public:
  /// Where a model runs, and how many outputs it keeps.
  enum class Kind { Host, Device };

  BigramEngine(PackLimits packLimits, int64_t vocab, Kind kind = Kind::Host,
               int64_t kept = 64)
      : size(packLimits), vocab(vocab), table(size_t(vocab * vocab)),
        grad(table.size()), m(table.size()), v(table.size()), kept(kept),
        ints(size_t(3 * size.tokens + size.documents + 1 + 2)), floats(1 + 8) {
    if (kind == Kind::Device) {
      device = std::make_unique<FakeDevice>();
      device->wait = [this] { runUpTo(started - 1); };
    }
    int32_t *i = ints.data();
    for (Buffer *buffer : {&bound.tokens, &bound.labels, &bound.positions}) {
      *buffer = view(i, DType::I32, size.tokens);
      i += size.tokens;
    }
    bound.cuSeqlens = view(i, DType::I32, size.documents + 1);
    bound.rng = view(i + size.documents + 1, DType::I32, 2);
    bound.lossScale = view(floats.data(), DType::F32, 1);
    bound.hyper = view(floats.data() + 1, DType::F32, 8);
    ParameterView parameter;
    parameter.name = "model.table";
    parameter.shape = {int64_t(table.size())};
    parameter.memory = &memory();
    parameter.value = place(table);
    parameter.moment1 = place(m);
    parameter.moment2 = place(v);
    views = {parameter};
    parts = {{true, ParameterInit::Normal, 0.02, place(grad)}};
  }

  PackLimits limits() const override { return size; }
  int64_t vocabSize() const override { return vocab; }
  std::span<ParameterView> parameters() override { return views; }
  std::span<const ParameterRole> roles() const override { return parts; }
  const EngineInputs &inputs() const override { return bound; }
  DeviceMemory &memory() override { return device ? *device : hostMemory(); }
  double trainingFlops(double tokens, double pairs) const override {
    return 6 * tokens + pairs;
  }
  double launchedFlops(int64_t microBatches, double pairs) const override {
    return 10 * double(microBatches * size.tokens) + pairs;
  }

  StatusOr<EngineRun> start(EngineRun::Program program) override {
    if (isBroken)
      return makeError(StatusCode::Internal, "engine broken");
    queue.push_back({program, ints, floats, {}});
    order.push_back(program);
    EngineRun run{program, started++};
    if (!device)
      runUpTo(run.number);
    return run;
  }
  StatusOr<Buffer> finish(EngineRun run) override {
    if (run.number < started - kept)
      return makeError(StatusCode::Internal, "run {} is not kept", run.number);
    if (run.program == EngineRun::Program::Update)
      startedBehindUpdate.push_back(started - 1 - run.number);
    runUpTo(run.number);
    Run &done = queue[size_t(run.number)];
    return view(done.output.data(), DType::F32, int64_t(done.output.size()));
  }
  int64_t keptRuns() const override { return kept; }
  /// A launch for the losses and one for the gradients.
  StatusOr<NonFiniteFinding>
  findNonFinite(EngineRun::Program program) override {
    QWEN_ASSIGN_OR_RETURN(EngineRun run, start(program));
    QWEN_ASSIGN_OR_RETURN(Buffer nll, finish(run));
    auto isBad = [](float value) { return !std::isfinite(value); };
    if (std::any_of(nll.as<float>(), nll.as<float>() + size.tokens, isBad))
      return NonFiniteFinding{0, "launch 0 of the losses"};
    if (std::any_of(grad.begin(), grad.end(), isBad))
      return NonFiniteFinding{0, "launch 1 of the gradients"};
    return NonFiniteFinding();
  }
  bool runsAhead() const override { return device != nullptr; }

  /// Tokens of the micro-steps up to the last update.
  std::vector<std::vector<int32_t>> trained() const {
    return {seen.begin(), seen.begin() + seenAtUpdate};
  }

  std::vector<EngineRun::Program> order; ///< of what was started
  /// Runs that were started behind each update before its output was read.
  std::vector<int64_t> startedBehindUpdate;
  std::vector<std::vector<int32_t>> seen; ///< tokens of every micro-step
  int64_t updates = 0;
  int64_t poisonedMicroStep = -1; ///< its loss is NaN, counted from 1
  int64_t poisonedGradient = -1;
  bool poisonAll = false;
  bool isBroken = false; ///< nothing starts any more
  PackLimits size;
  int64_t vocab;
  std::vector<float> table, grad, m, v;
  int64_t kept;

private:
  /// A started program with its inputs.
  struct Run {
    EngineRun::Program program;
    std::vector<int32_t> ints;
    std::vector<float> floats, output;
  };

  void runUpTo(int64_t number) {
    for (; ran <= number; ++ran) {
      Run &run = queue[size_t(ran)];
      if (run.program == EngineRun::Program::FirstMicroStep)
        std::fill(grad.begin(), grad.end(), 0.0f);
      if (run.program == EngineRun::Program::FirstMicroStep ||
          run.program == EngineRun::Program::MicroStep)
        microStep(run);
      else if (run.program == EngineRun::Program::Update)
        update(run);
      else
        forward(run, 0);
    }
  }

  void microStep(Run &run) {
    forward(run, run.floats[0]);
    seen.push_back({run.ints.begin(), run.ints.begin() + size.tokens});
    if (int64_t(seen.size()) == poisonedMicroStep || poisonAll)
      run.output[0] = grad[0] = std::nanf("");
    if (int64_t(seen.size()) == poisonedGradient)
      grad[1] = std::nanf("");
  }

  void update(Run &run) {
    double sum = 0;
    for (float g : grad)
      sum += double(g) * double(g);
    const float *h = run.floats.data() + 1;
    double norm = std::sqrt(sum);
    std::vector<float> stats = {
        float(norm),
        h[5] > 0 ? float(std::min(1.0, double(h[5]) / (norm + 1e-6))) : 1.0f,
        std::isfinite(norm) ? 1.0f : 0.0f, 0.0f};
    for (size_t i = 0; stats[2] != 0 && i < table.size(); ++i) {
      float g = stats[1] * grad[i];
      table[i] *= 1 - h[0] * h[4];
      m[i] = (1 - h[1]) * m[i] + h[1] * g;
      v[i] = (1 - h[2]) * v[i] + h[2] * g * g;
      table[i] -=
          h[0] / h[6] * m[i] / (std::sqrt(v[i]) / std::sqrt(h[7]) + h[3]);
    }
    run.output = stats;
    seenAtUpdate = seen.size();
    ++updates;
  }

  /// Where the parameter's buffers say that it lies.
  Buffer place(std::vector<float> &values) {
    void *data = device ? device->map(std::as_writable_bytes(std::span(values)))
                        : values.data();
    return view(data, DType::F32, int64_t(values.size()));
  }

  static Buffer view(void *data, DType dtype, int64_t elements) {
    return {contiguousType(dtype, {elements}), data};
  }

  /// Losses into the output; gradients times `scale` are added where it is not
  /// 0.
  void forward(Run &run, float scale) {
    const int32_t *tokens = run.ints.data(), *labels = tokens + size.tokens;
    run.output.assign(size_t(size.tokens), 0.0f);
    std::vector<double> p(static_cast<size_t>(vocab));
    for (int64_t t = 0; t < size.tokens; ++t) {
      if (labels[t] == -100)
        continue;
      size_t row = size_t(tokens[t] * vocab);
      double sum = 0;
      for (size_t j = 0; j < p.size(); ++j)
        sum += p[j] = std::exp(double(table[row + j]));
      run.output[size_t(t)] = float(-std::log(p[size_t(labels[t])] / sum));
      for (size_t j = 0; j < p.size() && scale != 0; ++j)
        grad[row + j] +=
            scale * float(p[j] / sum - (int32_t(j) == labels[t] ? 1 : 0));
    }
  }

  std::vector<int32_t> ints;
  std::vector<float> floats;
  EngineInputs bound;
  std::unique_ptr<FakeDevice> device; ///< null: this process's memory
  std::deque<Run> queue;              ///< every run
  int64_t started = 0, ran = 0;
  size_t seenAtUpdate = 0;
  std::vector<ParameterView> views;
  std::vector<ParameterRole> parts;
};

} // namespace qwen

#endif // QWEN_TEST_UNIT_RUNTIME_BIGRAMENGINE_H
