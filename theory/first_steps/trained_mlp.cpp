#include "theory/first_steps/trained_matrices.h"
#include "theory/kernels/activation_values.h"

namespace periscope::theory {
namespace {

class TrainedMlp final : public TrainedModule {
 public:
  TrainedMlp(const ModuleContext& context, int layer, const InitialBranch& branch)
      : context_(context),
        gated_(is_gated(context.spec.model.mlp)),
        activation_(activation_of(context.spec.model.mlp)),
        history_(context),
        first_(context, history_, place(layer, gated_ ? Weight::gate : Weight::up, 0)),
        up_(context, history_, place(layer, Weight::up, 1)),
        last_(context, branch, 2 * layer + 1, Weight::down, context.spec.model.mlp_width, hidden()),
        before_(hidden_of(first_.before(branch.read), gated_ ? up_.before(branch.read) : Sampled()).value) {
    const Index trained = context.tokens.trained();
    by_first_.resize(trained, hidden());
    if (gated_) by_up_.resize(trained, hidden());
  }

  MovedModule now(const MovedSignal& input, const TokensNow& now) override {
    history_.read(input, now);
    const FirstMatrix::Fields first = first_.now(now);
    const FirstMatrix::Fields up = gated_ ? up_.now(now) : FirstMatrix::Fields{};
    const Hidden h = hidden_of(first.values, up.values);
    Sampled responds = Sampled::Zero(now.count(), now.trained());
    if (now.done > 0) {
      responds += first_.response(first, h.by_activated, by_first_.topRows(now.trained()));
      if (gated_) responds += up_.response(up, h.by_up, by_up_.topRows(now.trained()));
    }
    const Sampled read = read_by_down(h.value);
    MovedModule module = last_.output(now.rows_of(before_), h.value, read, responds, now);
    module.update_square[gated_ ? Weight::gate : Weight::up] = first.update_square;
    if (gated_) module.update_square[Weight::up] = up.update_square;
    by_first_.middleRows(now.trained(), now.next()) = h.by_activated.topRows(now.next());
    if (gated_) by_up_.middleRows(now.trained(), now.next()) = h.by_up.topRows(now.next());
    hidden_now_ = read.topRows(now.next());
    return module;
  }

  Sampled back(const Sampled& gradients, const TokensNow& now, double& square) override {
    const Sampled beta = last_.back(gradients, now);
    last_.append(hidden_now_, gradients, now, square);
    const auto own = [&](const Sampled& by) {
      return Sampled(by.middleRows(now.trained(), now.next()).cwiseProduct(beta));
    };
    Sampled input = first_.back(own(by_first_), now, square);
    if (gated_) input += up_.back(own(by_up_), now, square);
    return input;
  }

 private:
  struct Hidden {
    Sampled value;         ///< h
    Sampled by_activated;  ///< ∂h/∂(what φ reads)
    Sampled by_up;         ///< ∂h/∂u, u the output of W_up in a gated MLP
  };
  [[nodiscard]] Hidden hidden_of(const Sampled& first, const Sampled& up) const {
    const Sampled phi = activation_values(activation_, first);
    const Sampled slope = activation_slopes(activation_, first);
    if (!gated_) return {phi, slope, {}};
    return {phi.cwiseProduct(up), slope.cwiseProduct(up), phi};
  }
  [[nodiscard]] Index hidden() const { return context_.draws.hidden(context_.spec.model); }
  [[nodiscard]] FirstMatrixPlace place(int layer, Weight weight, int number) const {
    return {2 * layer + 1, number, context_.spec.model.mlp_width, hidden(), stddev_of(context_.spec, layer, weight)};
  }
  /// Returns the hidden channels that W_down's update uses. Under the fault one_gate they are mixed: Gaussian with the
  /// same kernel, but without a gate for each channel.
  [[nodiscard]] Sampled read_by_down(const Sampled& value) const {
    if (context_.fault != StepFault::one_gate || !gated_) return value;
    NormalStream numbers = context_.draws.numbers(context_.spec.model.sublayers(), ChainDraws::Use::other);
    return value * numbers.normals_float(value.cols(), value.cols()) / std::sqrt(static_cast<float>(value.cols()));
  }

  const ModuleContext& context_;
  bool gated_;
  Activation activation_;
  ReadHistory history_;
  FirstMatrix first_, up_;
  LastMatrix last_;
  Sampled before_;            // h before training
  Sampled by_first_, by_up_;  // ∂h/∂z of every batch at its step
  Sampled hidden_now_;        // of the next batch
};

}  // namespace

std::unique_ptr<TrainedModule> trained_mlp(const ModuleContext& context, int layer, const InitialBranch& branch) {
  return std::make_unique<TrainedMlp>(context, layer, branch);
}

}  // namespace periscope::theory
