#include "tests/soundness/inner_signals.h"

#include <algorithm>
#include <utility>

namespace periscope::soundness {

void InnerSignals::on_inner(const Tensor* parameter, Inner inner, std::span<const double> magnitudes) {
  if (parameter != nullptr) last_ = *parameter;
  records_.push_back({last_, inner, {magnitudes.begin(), magnitudes.end()}});
}

void InnerSignals::on_signal(const Emission& at, const Tensor& /*x*/) {
  if (at.pass != Pass::forward) return;
  // Of a step as a whole the last of its sublayers.
  const bool of_step = is_of_step(at.signal) && at.sublayer >= 0 && at.sublayer < model_.steps();
  const int sublayer = of_step ? model_.step(at.sublayer).branches.back().sublayer : at.sublayer;
  for (const Record& record : std::exchange(records_, {})) add(sublayer, record);
}

void InnerSignals::add(int sublayer, const Record& r) {
  const bool in_layer = sublayer >= 0 && sublayer < model_.sublayers();
  const bool capped = in_layer && model_.scores_at(ModelSpec::layer_of(sublayer)).soft_cap > 0.0;
  const auto each = [&](Signal signal) { maxima_.raise_to(signal, sublayer, r.magnitudes); };
  const auto one = [&](Signal signal) {
    for (const double& magnitude : r.magnitudes) maxima_.raise_to(signal, sublayer, {&magnitude, 1});
  };
  switch (r.inner) {
    case Inner::partial_sum:
    case Inner::mean_sum:
    case Inner::dot_sum:
    case Inner::mixed_sum: return one(Signal::sums);
    case Inner::product: return has_bias(sublayer, r.parameter) ? one(Signal::products) : void();
    case Inner::centred: return one(Signal::deviations);
    case Inner::square:
    case Inner::square_sum: return one(Signal::squares);
    case Inner::reciprocal: return one(Signal::reciprocals);
    case Inner::bend_input:
    case Inner::normalised:
    case Inner::gained: return one(Signal::normalised);
    case Inner::scaled: return one(Signal::addends);
    case Inner::dot: return each(Signal::dots);
    case Inner::scaled_dot: return capped ? each(Signal::cap_inputs) : void();
    case Inner::capped:
      if (!in_layer) return one(Signal::cap_inputs);
      return capped ? each(Signal::cap_inputs) : void();
    case Inner::denominator_sum: return one(Signal::denominators);
    case Inner::activated: return each(Signal::gated);
    case Inner::score:   // the op's second result, a signal of its own
    case Inner::turned:  // at most |x| of a signal that is there
      return;
  }
}

bool InnerSignals::has_bias(int sublayer, const Tensor& matrix) const {
  const SublayerWeights weights = weights_.fetch(sublayer);
  return std::ranges::any_of(weights.linear, [&](const auto& entry) {
    return !entry.second.bias.empty() && entry.second.map->dense().same_as(matrix);
  });
}

}  // namespace periscope::soundness
