#include "sim/train/trainer.h"

#include <cmath>
#include <limits>
#include <utility>

#include "sim/core/statistics.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"

namespace periscope {
namespace {

/// Adds up the gradients of micro-batches.
class GradientSums final : public GradientRecorder {
 public:
  explicit GradientSums(const Backend& ops) : ops_(ops) {}
  void on_gradient(const ParameterId& id, const ParameterGradient& gradient) override {
    Tensor& sum = sums_[id];
    sum = sum.empty() ? gradient.whole() : ops_.axpby(1.0, std::exchange(sum, {}), 1.0, gradient.whole());
  }
  [[nodiscard]] std::map<ParameterId, Tensor>& sums() { return sums_; }

 private:
  const Backend& ops_;
  std::map<ParameterId, Tensor> sums_;
};

struct Squares {
  double all = 0.0;
  double last_layer = 0.0;
};

Squares squares_of(const Backend& ops, const std::map<ParameterId, Tensor>& gradients, const ModelSpec& model) {
  StatisticsRecord record(ops);
  std::map<ParameterId, StatisticsRecord::Slot> slots;
  for (const auto& [id, gradient] : gradients) slots[id] = record.measure(gradient, {.squares = true});
  record.fetch();
  Squares squares;
  for (const auto& [id, slot] : slots) {
    double sum = 0.0;
    for (const double square : record[slot].squares) sum += square;
    squares.all += sum;
    if (is_of_layer(id.weight) && id.layer() == model.layers - 1) squares.last_layer += sum;
  }
  return squares;
}

}  // namespace

bool StepOutcome::is_finite() const { return std::isfinite(loss) && std::isfinite(grad_norm); }

Trainer::Trainer(const Backend& ops, const StackSpec& spec, const TrainSpec& train, const Corpus& corpus,
                 std::uint64_t seed, DType dtype)
    : ops_(ops),
      spec_(spec),
      train_(train),
      corpus_(corpus),
      seed_(seed),
      weights_(spec, GeneratedWeights(ops, spec, dtype, seed)),
      optimizer_(ops, train) {}

StepOutcome Trainer::step() {
  const int number = steps_ + 1;
  const Windows batch = training_batch(corpus_, spec_.input.tokens + 1, train_.batch, seed_, number);
  const int sequences = train_.batch / train_.accumulate;
  const StackContext context{.ops = ops_, .model = spec_.model, .weights = weights_, .sequences = sequences};
  GradientSums gradients(ops_);
  const Hooks hooks{.gradients = {&gradients}};
  double loss = 0.0;
  for (int first = 0; first < train_.batch; first += sequences) {
    const std::vector<int> ids = batch.inputs(first, sequences);
    const Backpropagated back = backpropagate(context, embedding_forward(context, ids), batch.labels(first, sequences),
                                              hooks, std::numeric_limits<std::size_t>::max());
    embedding_backward(context, ids, back.dinput, hooks);
    loss += back.loss;
  }
  const double share = 1.0 / train_.accumulate;
  const Squares squares = squares_of(ops_, gradients.sums(), spec_.model);
  const StepOutcome outcome{.loss = share * loss,
                            .grad_norm = share * std::sqrt(squares.all),
                            .last_layer_norm = share * std::sqrt(squares.last_layer),
                            .rate = learning_rate(train_, number)};
  steps_ = number;
  if (!outcome.is_finite()) return outcome;
  const bool clipped = train_.clip > 0.0 && outcome.grad_norm > train_.clip;
  const double scale = clipped ? share * train_.clip / outcome.grad_norm : share;
  for (auto& [id, gradient] : gradients.sums()) {
    Tensor& parameter = weights_.parameters().at(id);
    parameter = optimizer_.updated(id, std::exchange(parameter, {}), gradient, scale, number);
    gradient = {};
  }
  return outcome;
}

TrainingState Trainer::state() const { return {steps_, weights_.parameters(), optimizer_.memory()}; }

void Trainer::restore(TrainingState state) {
  steps_ = state.steps;
  weights_.parameters() = std::move(state.parameters);
  optimizer_.set_memory(std::move(state.memory));
}

}  // namespace periscope
