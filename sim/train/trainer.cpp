#include "sim/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "sim/base/parallel_for.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "sim/model/parameters.h"

namespace periscope {
namespace {

using Gradients = std::map<ParameterId, Tensor>;

/// Collects the gradients of one pass, except those of frozen weights.
class GradientCollector final : public GradientRecorder {
 public:
  explicit GradientCollector(const TrainSpec& train) : train_(train) {}
  void on_gradient(const ParameterId& id, const ParameterGradient& gradient) override {
    if (!is_frozen(train_, id.weight)) gradients_[id] = gradient.whole();
  }
  [[nodiscard]] Gradients take() { return std::move(gradients_); }

 private:
  const TrainSpec& train_;
  Gradients gradients_;
};

/// Loss and gradients of a pass over one part of a batch.
struct PartOutcome {
  double loss = 0.0;
  Gradients gradients = {};
};

PartOutcome pass_part(const StackContext& context, const TrainSpec& train, const Windows& batch, int first) {
  GradientCollector collector(train);
  const Hooks hooks{.gradients = {&collector}};
  const std::vector<int> ids = batch.inputs(first, context.sequences);
  const Loss back = backpropagate(context, embedding_forward(context, ids), batch.labels(first, context.sequences),
                                  hooks, std::numeric_limits<std::size_t>::max());
  embedding_backward(context, ids, back.gradient, hooks);
  return {.loss = back.value, .gradients = collector.take()};
}

double sum_of_squares(const Backend& ops, const Tensor& x) {
  const std::vector<double> rows = ops.to_host(ops.measure(x, {.squares = true}));
  return std::accumulate(rows.begin(), rows.end(), 0.0);
}

/// Calls f(i) for i < count. On the host, each call runs in its own thread including all its ops, because
/// parameters of a small stack are too small for parallel ops.
template <class F>
void for_each_parameter(const Backend& ops, std::size_t count, const F& f) {
  parallel_for(count, f, ops.device() == Device::host);
}

double parameter_bytes(const StackSpec& spec, DType dtype) {
  double entries = 0.0;
  for (const ParameterId& id : matrices_of(spec)) {
    const WeightShape shape = shape_of(spec.model, id.weight, id.layer());
    entries += static_cast<double>(shape.fan_out) * shape.fan_in;
  }
  return entries * static_cast<double>(size_of(dtype));
}

}  // namespace

int parts_of_micro_batch(const StackSpec& spec, const TrainSpec& train, DType dtype) {
  constexpr int max_parts = 16;
  constexpr int min_tokens = 512;
  constexpr double max_bytes = 0x1p27;
  const int sequences = train.batch / train.accumulate;
  const double bytes = parameter_bytes(spec, dtype);
  int parts = 1;
  for (int p = 2; p <= std::min(max_parts, sequences); ++p) {
    const bool fits = sequences / p * spec.input.tokens >= min_tokens && p * bytes <= max_bytes;
    if (sequences % p == 0 && fits) parts = p;
  }
  return parts;
}

bool StepOutcome::is_finite() const { return std::isfinite(loss) && std::isfinite(grad_norm); }

Trainer::Trainer(const Backend& ops, const StackSpec& spec, const TrainSpec& train, const Corpus& corpus,
                 std::uint64_t seed, DType dtype)
    : ops_(ops),
      spec_(spec),
      train_(train),
      parts_(train.accumulate * (ops.device() == Device::host ? parts_of_micro_batch(spec, train, dtype) : 1)),
      corpus_(corpus),
      seed_(seed),
      dtype_(dtype),
      masters_(spec, GeneratedWeights(ops, spec, master_dtype(dtype), seed)),
      optimizer_(ops, train, masters_.parameters()) {
  for (const auto& [id, x] : masters_.parameters()) {
    if (!is_frozen(train, id.weight)) ids_.push_back(id);
  }
  round_masters();
}

void Trainer::round_masters() {
  if (dtype_ == master_dtype(dtype_)) return;
  if (!rounded_) rounded_.emplace(spec_.model, ResidentWeights::Parameters());
  for (const auto& [id, x] : masters_.parameters()) rounded_->parameters()[id] = ops_.cast(x, dtype_);
}

// Every round computes one micro-batch's parts concurrently and sums them in a fixed order.
Trainer::BatchOutcome Trainer::pass(const Windows& batch) const {
  const int sequences = train_.batch / parts_;
  const StackContext context{.ops = ops_, .model = spec_.model, .weights = weights(), .sequences = sequences};
  const int concurrent = parts_ / train_.accumulate;
  BatchOutcome sum{.loss = 0.0, .gradients = std::vector<Tensor>(ids_.size())};
  for (int round = 0; round < train_.accumulate; ++round) {
    std::vector<PartOutcome> outcomes(static_cast<std::size_t>(concurrent));
    const auto pass_one = [&](int i) {
      outcomes[static_cast<std::size_t>(i)] = pass_part(context, train_, batch, (round * concurrent + i) * sequences);
    };
    parallel_for(concurrent, pass_one, concurrent > 1);
    for (const PartOutcome& outcome : outcomes) sum.loss += outcome.loss;
    for_each_parameter(ops_, ids_.size(), [&](std::size_t i) {
      Tensor& total = sum.gradients[i];
      for (PartOutcome& outcome : outcomes) {
        Tensor gradient = std::exchange(outcome.gradients.at(ids_[i]), {});
        if (rounded_) gradient = ops_.cast(gradient, master_dtype(dtype_));
        total = total.empty() ? gradient : ops_.axpby(1.0, std::exchange(total, {}), 1.0, gradient);
      }
    });
  }
  return sum;
}

Trainer::Squares Trainer::squares_of(const std::vector<Tensor>& gradients) const {
  std::vector<double> sums(ids_.size());
  for_each_parameter(ops_, ids_.size(), [&](std::size_t i) { sums[i] = sum_of_squares(ops_, gradients[i]); });
  Squares squares{.all = 0.0, .last_layer = 0.0};
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    squares.all += sums[i];
    if (is_of_layer(ids_[i].weight) && ids_[i].layer() == spec_.model.layers - 1) squares.last_layer += sums[i];
  }
  return squares;
}

void Trainer::update(std::vector<Tensor>& gradients, double scale, int step) {
  for_each_parameter(ops_, ids_.size(), [&](std::size_t i) {
    Tensor& parameter = masters_.parameters().at(ids_[i]);
    parameter = optimizer_.updated(ids_[i], std::exchange(parameter, {}), gradients[i], scale, step);
    gradients[i] = {};
  });
  round_masters();
}

StepOutcome Trainer::step() {
  const int number = steps_ + 1;
  BatchOutcome batch = pass(training_batch(corpus_, spec_.input.tokens + 1, train_.batch, seed_, number));
  const double share = 1.0 / parts_;
  const Squares squares = squares_of(batch.gradients);
  const StepOutcome outcome{.loss = share * batch.loss,
                            .grad_norm = share * std::sqrt(squares.all),
                            .last_layer_norm = share * std::sqrt(squares.last_layer),
                            .rate = learning_rate(train_, number)};
  steps_ = number;
  if (!outcome.is_finite()) return outcome;
  const bool clipped = train_.clip > 0.0 && outcome.grad_norm > train_.clip;
  update(batch.gradients, clipped ? share * train_.clip / outcome.grad_norm : share, number);
  return outcome;
}

TrainingState Trainer::state() const { return {steps_, masters_.parameters(), optimizer_.state()}; }

void Trainer::restore(TrainingState state) {
  steps_ = state.steps;
  masters_.parameters() = std::move(state.parameters);
  optimizer_.set_state(std::move(state.optimizer));
  round_masters();
}

}  // namespace periscope
