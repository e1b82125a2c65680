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
        before_(hidden_of(first_.initial_output(branch.input), gated_ ? up_.initial_output(branch.input) : Sampled())
                    .value) {
    const Index trained = context.tokens.trained();
    dh_dfirst_.resize(trained, hidden());
    if (gated_) dh_dup_.resize(trained, hidden());
  }

  ModuleOutput forward(const TrainedSignal& input, const CurrentTokens& now) override {
    history_.update(input, now);
    const InputMatrix::Fields first = first_.forward(now);
    const InputMatrix::Fields up = gated_ ? up_.forward(now) : InputMatrix::Fields{};
    const Hidden h = hidden_of(first.values, up.values);
    Sampled other_response = Sampled::Zero(now.count(), now.trained());
    if (now.done > 0) {
      other_response += first_.response(first, h.dh_dfirst, dh_dfirst_.topRows(now.trained()));
      if (gated_) other_response += up_.response(up, h.dh_dup, dh_dup_.topRows(now.trained()));
    }
    const Sampled read = down_input(h.value);
    ModuleOutput module = last_.output(now.rows_of(before_), h.value, read, other_response, now);
    module.update_square[gated_ ? Weight::gate : Weight::up] = first.update_square;
    if (gated_) module.update_square[Weight::up] = up.update_square;
    dh_dfirst_.middleRows(now.trained(), now.next()) = h.dh_dfirst.topRows(now.next());
    if (gated_) dh_dup_.middleRows(now.trained(), now.next()) = h.dh_dup.topRows(now.next());
    hidden_now_ = read.topRows(now.next());
    return module;
  }

  Sampled backward(const Sampled& gradients, const CurrentTokens& now, double& square) override {
    const Sampled dh = last_.backward(gradients, now);
    last_.append(hidden_now_, gradients, now, square);
    const auto masked_gradient = [&](const Sampled& by) {
      return Sampled(by.middleRows(now.trained(), now.next()).cwiseProduct(dh));
    };
    Sampled input = first_.backward(masked_gradient(dh_dfirst_), now, square);
    if (gated_) input += up_.backward(masked_gradient(dh_dup_), now, square);
    return input;
  }

 private:
  struct Hidden {
    Sampled value;      ///< h
    Sampled dh_dfirst;  ///< ∂h/∂(input of φ)
    Sampled dh_dup;     ///< ∂h/∂u, u the output of W_up in a gated MLP
  };
  [[nodiscard]] Hidden hidden_of(const Sampled& first, const Sampled& up) const {
    const Sampled phi = activation_values(activation_, first);
    const Sampled slope = activation_slopes(activation_, first);
    if (!gated_) return {phi, slope, {}};
    return {phi.cwiseProduct(up), slope.cwiseProduct(up), phi};
  }
  [[nodiscard]] Index hidden() const { return context_.draws.hidden(context_.spec.model); }
  [[nodiscard]] InputMatrixPlace place(int layer, Weight weight, int number) const {
    return {2 * layer + 1, number, context_.spec.model.mlp_width, hidden(), stddev_of(context_.spec, layer, weight)};
  }
  /// Returns the hidden channels used by the update of W_down. With the fault one_gate they are mixed at random, which
  /// makes them Gaussian with the same kernel.
  [[nodiscard]] Sampled down_input(const Sampled& value) const {
    if (context_.fault != StepFault::one_gate || !gated_) return value;
    NormalStream numbers = context_.draws.numbers(context_.spec.model.sublayers(), ReplicateDraws::Use::other);
    return value * numbers.normals_float(value.cols(), value.cols()) / std::sqrt(static_cast<float>(value.cols()));
  }

  const ModuleContext& context_;
  bool gated_;
  Activation activation_;
  InputHistory history_;
  InputMatrix first_, up_;
  OutputMatrix last_;
  Sampled before_;              // h before training
  Sampled dh_dfirst_, dh_dup_;  // ∂h/∂z of every batch at its step
  Sampled hidden_now_;          // hidden channels of the next batch
};

}  // namespace

std::unique_ptr<TrainedModule> trained_mlp(const ModuleContext& context, int layer, const InitialBranch& branch) {
  return std::make_unique<TrainedMlp>(context, layer, branch);
}

}  // namespace periscope::theory
