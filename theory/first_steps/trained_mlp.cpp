#include <cmath>

#include "theory/first_steps/activation_values.h"
#include "theory/first_steps/moved_modules.h"

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

struct Hidden {
  Sampled value;         ///< h
  Sampled by_activated;  ///< ∂h/∂(what φ reads)
  Sampled by_up;         ///< ∂h/∂u of a gated one
};

Hidden hidden_of(Activation activation, bool gated, const Sampled& first, const Sampled& up) {
  const Sampled phi = activation_values(activation, first);
  const Sampled slope = activation_slopes(activation, first);
  if (!gated) return {phi, slope, {}};
  return {phi.cwiseProduct(up), slope.cwiseProduct(up), phi};
}

/// Adds the mean over rows of a(s) ∂z(s)/∂g(t) b(t).
void add_response(Sampled& sum, const FieldMover& mover, const MovedFields& moved, double variance, const Sampled& a,
                  const Sampled& b) {
  const auto rows = static_cast<float>(a.cols());
  const auto d = static_cast<float>(mover.width());
  sum += (static_cast<float>(variance) * d / rows) * mover.response().cwiseProduct(a * b.transpose());
  sum -= (d / rows) * mover.cross().cwiseProduct(a * b.cwiseProduct(moved.slope).transpose());
  if (moved.w.size() > 0) sum += (d / rows) * (a.cwiseProduct(moved.v) * b.cwiseProduct(moved.w).transpose());
}

class TrainedMlp final : public TrainedModule {
 public:
  TrainedMlp(const ModuleContext& context, int layer, const InitialBranch& branch)
      : context_(context),
        layer_(layer),
        branch_(branch),
        gated_(is_gated(context.spec.model.mlp)),
        activation_(activation_of(context.spec.model.mlp)),
        history_(context.tokens, context.samples.channels),
        last_(context, branch, layer, Weight::down, context.spec.model.mlp_width, Index{2} * context.samples.hidden),
        first_update_(context, sublayer(), 8, context.spec.model.mlp_width, std::sqrt(variance(first_weight()))),
        up_update_(context, sublayer(), 9, context.spec.model.mlp_width, std::sqrt(variance(Weight::up))) {
    const TrainingTokens& tokens = context.tokens;
    const Index hidden = context.samples.hidden;
    const auto draw = [&](Weight weight, StepSamples::Purpose purpose) {
      NormalStream numbers = context.samples.numbers(sublayer(), purpose);
      const Sampled half = fields_of(std::sqrt(variance(weight) * context_.spec.model.width), branch.input_factor,
                                     numbers.normals_float(tokens.all(), hidden));
      return Sampled(half.replicate(1, 2));
    };
    first_.before = draw(first_weight(), StepSamples::Purpose::projections);
    if (gated_) up_.before = draw(Weight::up, StepSamples::Purpose::values);
    NormalStream numbers = context.samples.numbers(sublayer(), StepSamples::Purpose::cotangents);
    cotangent_ = both_signs(fields_of(std::sqrt(variance(Weight::down) * context.spec.model.width),
                                      factor_of(branch.gradient), numbers.normals_float(tokens.trained(), hidden)));
    for (Sampled* x : {&first_.gradient, &by_first_}) x->resize(tokens.trained(), 2 * hidden);
    if (gated_) {
      for (Sampled* x : {&up_.gradient, &by_up_}) x->resize(tokens.trained(), 2 * hidden);
    }
    channels_ = input_channels(context, sublayer(), branch);
    Hidden hidden_before = hidden_of(activation_, gated_, first_.before, up_.before);
    first_before_ = hidden_before.by_activated.topRows(tokens.trained()).cwiseProduct(cotangent_);
    if (gated_) up_before_ = hidden_before.by_up.topRows(tokens.trained()).cwiseProduct(cotangent_);
    before_ = std::move(hidden_before.value);
  }

  MovedModule now(const MovedInput& input, const TokensNow& now) override {
    const ModelSpec& m = context_.spec.model;
    const FieldMover mover(branch_.input, input, history_, now, context_.law, m.width, context_.fault);
    NormalStream fresh = context_.samples.fresh_numbers(sublayer(), static_cast<int>(now.done));
    const auto moved = [&](const RowFields& fields, Weight weight, int which) {
      return mover.move(fields, variance(weight), context_.samples.row_numbers(sublayer(), which), fresh);
    };
    const MovedFields of_first = moved(first_, first_weight(), 0);
    const MovedFields of_up = gated_ ? moved(up_, Weight::up, 1) : MovedFields{};
    const Hidden hidden = hidden_of(activation_, gated_, of_first.values, of_up.values);
    const double gain = variance(Weight::down) * m.mlp_width;
    MovedModule module;
    fill_module(module, now.rows_of(before_), hidden.value, gain, context_.law.kept(now.done),
                context_.samples.channels, context_.samples.row_numbers(sublayer(), 10));
    module.response = Sampled::Zero(now.count(), now.trained());
    if (now.done > 0) {
      add_response(module.response, mover, of_first, variance(first_weight()), hidden.by_activated,
                   by_first_.topRows(now.trained()));
      if (gated_) {
        add_response(module.response, mover, of_up, variance(Weight::up), hidden.by_up, by_up_.topRows(now.trained()));
      }
      module.response = static_cast<float>(gain) * decayed(module.response, context_.law, now);
    }
    const Sampled read = read_by_down(hidden.value);
    last_.fill(module, read, now);
    module.update_square[first_weight()] = of_first.update_square;
    if (gated_) module.update_square[Weight::up] = of_up.update_square;
    if (now.next() > 0) {
      const Index next = now.next();
      by_first_.middleRows(now.trained(), next) = hidden.by_activated.topRows(next);
      if (gated_) by_up_.middleRows(now.trained(), next) = hidden.by_up.topRows(next);
      hidden_now_ = read.topRows(next);
      channels_now_ = mover.keep().head(next).asDiagonal() * channels_.middleRows(now.trained(), next) +
                      input.follows.topRows(next) + input.wanders.topRows(next);
      history_.append(input, now, mover.keep(), mover.true_cross());
    }
    return module;
  }

  Sampled back(const Sampled& gradients, const TokensNow& now) override {
    const Index first = now.trained();
    const Index count = now.next();
    const Sampled beta = last_.cotangent(cotangent_.middleRows(first, count), gradients, now);
    const Sampled own = by_first_.middleRows(first, count).cwiseProduct(beta);
    first_.gradient.middleRows(first, count) = own;
    Sampled added = first_update_.back(own, first_before_.middleRows(first, count), channels_now_);
    if (gated_) {
      const Sampled of_up = by_up_.middleRows(first, count).cwiseProduct(beta);
      up_.gradient.middleRows(first, count) = of_up;
      added += up_update_.back(of_up, up_before_.middleRows(first, count), channels_now_);
    }
    last_.append(hidden_now_, gradients, now);
    return added;
  }

  [[nodiscard]] Sampled gradients(const TokensNow& now) const override { return last_.gradients(now); }

 private:
  /// The hidden channels as the update of W_down takes them to be: under Fault one_gate mixed, so that they are
  /// Gaussian and have the kernel that they had, but no gate of their own.
  [[nodiscard]] Sampled read_by_down(const Sampled& hidden) const {
    if (context_.fault != StepFault::one_gate || !gated_) return hidden;
    NormalStream numbers = context_.samples.row_numbers(sublayer(), 11);
    return hidden * numbers.normals_float(hidden.cols(), hidden.cols()) / std::sqrt(static_cast<float>(hidden.cols()));
  }
  [[nodiscard]] int sublayer() const { return 2 * layer_ + 1; }
  [[nodiscard]] Weight first_weight() const { return gated_ ? Weight::gate : Weight::up; }
  [[nodiscard]] double variance(Weight weight) const {
    return std::pow(entry_stddev(context_.spec, layer_, weight), 2);
  }

  const ModuleContext& context_;
  int layer_;
  const InitialBranch& branch_;
  bool gated_;
  Activation activation_;
  RowFields first_, up_;
  Sampled cotangent_;                  // β = W_downᵀ g of every batch
  Sampled by_first_, by_up_;           // ∂h/∂z of every batch at its step
  Sampled before_;                     // h before training
  Sampled first_before_, up_before_;   // gradients of the fields before training
  Sampled channels_;                   // of A_out before training
  Sampled hidden_now_, channels_now_;  // of the next batch
  ReadHistory history_;
  LastMatrix last_;
  FirstMatrix first_update_, up_update_;
};

}  // namespace

std::unique_ptr<TrainedModule> trained_mlp(const ModuleContext& context, int layer, const InitialBranch& branch) {
  return std::make_unique<TrainedMlp>(context, layer, branch);
}

}  // namespace periscope::theory
