#include "experiments/studies/certify/signal_maxima.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "theory/certify/signal.h"

namespace periscope::certify {
namespace {

/// True if a signal is another tensor than the one before it: a certificate bounds no signal twice.
bool is_distinct(const ModelSpec& m, const Emission& at) {
  const bool in_stack = at.sublayer >= 0 && at.sublayer < (is_of_step(at.signal) ? m.steps() : m.sublayers());
  const Branch branch = in_stack && !is_of_step(at.signal) ? m.branch(at.sublayer) : Branch{};
  switch (at.signal) {
    case Signal::A_out: return branch.norm_a || branch.input_gain != 1.0;
    case Signal::q_projected:
    case Signal::k_projected: return m.qk_norm_at(ModelSpec::layer_of(at.sublayer)) != QkNorm::none;
    case Signal::B_out: return branch.norm_b;
    case Signal::sum: return in_stack && m.step(at.sublayer).norm_c[static_cast<std::size_t>(at.part)];
    case Signal::r_out: return at.sublayer >= 0;
    case Signal::head_scores: return m.head.soft_cap > 0.0;
    case Signal::logits: return m.unembedding;
    default: return theory::is_certified(at.signal);
  }
}

/// Adds what a pass shows to maxima.
class MaximaRecorder final : public SignalRecorder {
 public:
  MaximaRecorder(const StackContext& context, InnerLog* log, SignalMaxima& maxima)
      : c_(context), log_(log), maxima_(maxima) {}

  void on_signal(const Emission& at, const Tensor& x) override {
    if (at.pass != Pass::forward) return;
    if (log_ != nullptr) note_inner(sublayer_of(at));
    if (is_distinct(c_.model, at)) maxima_.raise_to(at.signal, at.sublayer, c_.ops.column_maxima(x));
  }

 private:
  /// The sublayer whose ops a signal comes out of: of a step as a whole its last one.
  [[nodiscard]] int sublayer_of(const Emission& at) const {
    const bool of_step = is_of_step(at.signal) && at.sublayer >= 0 && at.sublayer < c_.model.steps();
    return of_step ? c_.model.step(at.sublayer).branches.back().sublayer : at.sublayer;
  }

  /// Notes what ops reported before the signal that arises now.
  void note_inner(int sublayer) {
    const bool in_layer = sublayer >= 0 && sublayer < c_.model.sublayers();
    const bool capped = in_layer && c_.model.scores_at(ModelSpec::layer_of(sublayer)).soft_cap > 0.0;
    for (const InnerLog::Record& r : log_->take()) {
      const auto one = [&](Signal signal) { maxima_.raise_to(signal, sublayer, r.magnitudes, true); };
      const auto each = [&](Signal signal) { maxima_.raise_to(signal, sublayer, r.magnitudes); };
      switch (r.inner) {
        case Inner::partial_sum:
        case Inner::mean_sum:
        case Inner::dot_sum:
        case Inner::mixed_sum: one(Signal::sums); break;
        case Inner::product:
          if (has_bias(sublayer, r.parameter)) one(Signal::products);
          break;
        case Inner::centred: one(Signal::deviations); break;
        case Inner::square:
        case Inner::square_sum: one(Signal::squares); break;
        case Inner::reciprocal: one(Signal::reciprocals); break;
        case Inner::bend_input:
        case Inner::normalised:
        case Inner::gained: one(Signal::normalised); break;
        case Inner::scaled: one(Signal::addends); break;
        case Inner::dot: each(Signal::dots); break;
        case Inner::scaled_dot:
          if (capped) each(Signal::cap_inputs);
          break;
        case Inner::capped:
          if (!in_layer) one(Signal::cap_inputs);
          if (capped) each(Signal::cap_inputs);
          break;
        case Inner::score: break;  // the op's second result, a signal of its own
        case Inner::denominator_sum: one(Signal::denominators); break;
        case Inner::activated: each(Signal::gated); break;
        case Inner::turned: break;  // at most |x| of a signal that is there
      }
    }
  }

  [[nodiscard]] bool has_bias(int sublayer, const Tensor& matrix) const {
    const SublayerWeights weights = c_.weights.fetch(sublayer);
    return std::ranges::any_of(weights.linear, [&](const auto& entry) {
      return !entry.second.bias.empty() && entry.second.map->dense().same_as(matrix);
    });
  }

  const StackContext& c_;
  InnerLog* log_;
  SignalMaxima& maxima_;
};

}  // namespace

void SignalMaxima::add(const StackContext& c, const Tensor& input, InnerLog* log) {
  MaximaRecorder recorder(c, log, *this);
  const Hooks hooks{.recorders = {&recorder}};
  (void)logits_forward(c, stack_forward(c, input, hooks).output, hooks);
}

void SignalMaxima::add(const StackContext& c, std::span<const int> ids, InnerLog* log) {
  MaximaRecorder recorder(c, log, *this);
  const Hooks hooks{.recorders = {&recorder}};
  (void)logits_forward(c, stack_forward(c, embedding_forward(c, ids, hooks), hooks).output, hooks);
}

void SignalMaxima::raise_to(Signal signal, int sublayer, std::span<const double> magnitudes, bool one) {
  std::vector<double>& maxima = maxima_[{signal, sublayer}];
  maxima.resize(one ? 1 : magnitudes.size(), 0.0);
  for (std::size_t i = 0; i < magnitudes.size(); ++i) {
    double& most = maxima[one ? 0 : i];
    most = std::max(most, std::isnan(magnitudes[i]) ? std::numeric_limits<double>::infinity() : magnitudes[i]);
  }
}

const std::vector<double>* SignalMaxima::find(Signal signal, int sublayer) const {
  const auto at = maxima_.find({signal, sublayer});
  return at == maxima_.end() ? nullptr : &at->second;
}

double SignalMaxima::largest(Signal signal, int sublayer) const {
  const std::vector<double>* maxima = find(signal, sublayer);
  return maxima == nullptr ? std::numeric_limits<double>::quiet_NaN() : *std::ranges::max_element(*maxima);
}

}  // namespace periscope::certify
