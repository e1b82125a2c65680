#include "experiments/studies/first_steps/first_steps.h"
#include "sim/measure/model_reading.h"
#include "sim/measure/signal_store.h"
#include "tests/support/doctest.h"
#include "tests/train/tiny_training.h"

namespace periscope::testing {
namespace {

using Values = std::vector<double>;

struct Trained {
  Trained(StackSpec of, int steps) : spec(std::move(of)), trainer(trainer_of(truth_target(), spec, plan(), seed)) {
    for (int step = 0; step < steps; ++step) static_cast<void>(trainer.step());
    const training::TrainingTask task{.spec = spec, .train = plan(), .seed = seed, .dtype = DType::f64, .name = ""};
    first_steps::add_updates(truth(), task, synthetic_language(), trainer.weights(), values);
  }
  static TrainSpec plan() {
    TrainSpec train = few_steps(OptimizerKind::adamw);
    train.record_sequences = 2;
    return train;
  }
  static constexpr std::uint64_t seed = 5;

  StackSpec spec;
  Trainer trainer;
  training::RecordedValues values;
};

/// Returns the mean square of (W − W₀) h over all rows h of a signal.
double by_hand(const Trained& trained, const SignalStore& signals, int layer, Weight weight, Signal input) {
  const ParameterId id = matrix_id(layer, weight);
  const Values now = truth().to_host(trained.trainer.weights().parameters().at(id));
  const GeneratedWeights initial(truth(), trained.spec, DType::f64, Trained::seed);
  const Values before = truth().to_host(initial.matrix(layer, weight)->dense());
  const Tensor read = signals.at(id.sublayer, input);
  const Values h = truth().to_host(read);
  const auto in = static_cast<std::size_t>(read.cols());
  const std::size_t out = now.size() / in;
  double sum = 0.0;
  for (std::size_t t = 0; t < h.size() / in; ++t) {
    for (std::size_t k = 0; k < out; ++k) {
      double y = 0.0;
      for (std::size_t j = 0; j < in; ++j) y += (now[k * in + j] - before[k * in + j]) * h[t * in + j];
      sum += y * y;
    }
  }
  return sum * static_cast<double>(in) / static_cast<double>(out * h.size());
}

void record_signals(const Trained& trained, SignalStore& signals) {
  const Windows windows = held_out(synthetic_language(), trained.spec.input.tokens + 1, 2);
  const StackContext context{
      .ops = truth(), .model = trained.spec.model, .weights = trained.trainer.weights(), .sequences = windows.count()};
  static_cast<void>(read_model(
      context, {.ids = windows.inputs(0, 2), .labels = windows.labels(0, 2), .hooks = {.recorders = {&signals}}}));
}

TEST_CASE("updates have the mean square of (W − W₀) h by explicit sums") {
  StackSpec plain = trained_stack("peri");
  StackSpec rich = trained_stack("pre");
  rich.model.inner_norm = InnerNorm::both;
  rich.model.attention_gate = AttentionGate::channel;
  StackSpec gated = rich;
  gated.model.inner_norm = InnerNorm::none;
  for (const auto& [spec, o_reads, down_reads] :
       {std::tuple(plain, Signal::mixed, Signal::hidden), std::tuple(rich, Signal::inner, Signal::inner),
        std::tuple(gated, Signal::gated_mixed, Signal::hidden)}) {
    const Trained trained(spec, 2);
    SignalStore signals(Pass::forward);
    record_signals(trained, signals);
    std::size_t matrices = 0;
    for (const Weight weight : layer_matrices) {
      const std::string name = "update." + std::string(name_of(weight));
      if (!trained.trainer.weights().parameters().contains(matrix_id(0, weight))) {
        CHECK_FALSE(trained.values.contains(name));
        continue;
      }
      ++matrices;
      const Signal input = weight == Weight::o ? o_reads : weight == Weight::down ? down_reads : Signal::A_out;
      REQUIRE(trained.values.at(name).size() == static_cast<std::size_t>(spec.model.layers));
      for (int layer = 0; layer < spec.model.layers; ++layer) {
        INFO(name, " of layer ", layer);
        const double expected = by_hand(trained, signals, layer, weight, input);
        CHECK(expected > 0.0);
        CHECK(trained.values.at(name)[static_cast<std::size_t>(layer)] == approx(expected).epsilon(1e-12));
      }
    }
    CHECK(trained.values.size() == matrices);
  }
}

TEST_CASE("updates are zero before training") {
  const Trained fresh(trained_stack("post"), 0);
  for (const auto& matrix : fresh.values) {
    for (const double moment : matrix.second) CHECK_MESSAGE(moment == 0.0, matrix.first);
  }
}

}  // namespace
}  // namespace periscope::testing
