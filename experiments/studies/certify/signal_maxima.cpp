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

class MaximaRecorder final : public SignalRecorder {
 public:
  MaximaRecorder(const StackContext& context, SignalMaxima& maxima) : c_(context), maxima_(maxima) {}

  void on_signal(const Emission& at, const Tensor& x) override {
    if (at.pass != Pass::forward || !is_distinct(c_.model, at)) return;
    maxima_.raise_to(at.signal, at.sublayer, c_.ops.column_maxima(x));
  }

 private:
  const StackContext& c_;
  SignalMaxima& maxima_;
};

}  // namespace

void SignalMaxima::add(const StackContext& c, const Tensor& input, Hooks hooks) {
  MaximaRecorder recorder(c, *this);
  hooks.recorders.push_back(&recorder);
  (void)logits_forward(c, stack_forward(c, input, hooks).output, hooks);
}

void SignalMaxima::add(const StackContext& c, std::span<const int> ids, Hooks hooks) {
  MaximaRecorder recorder(c, *this);
  hooks.recorders.push_back(&recorder);
  (void)logits_forward(c, stack_forward(c, embedding_forward(c, ids, hooks), hooks).output, hooks);
}

void SignalMaxima::raise_to(Signal signal, int sublayer, std::span<const double> magnitudes) {
  std::vector<double>& maxima = maxima_[{signal, sublayer}];
  maxima.resize(magnitudes.size(), 0.0);
  for (std::size_t i = 0; i < magnitudes.size(); ++i) {
    maxima[i] =
        std::max(maxima[i], std::isnan(magnitudes[i]) ? std::numeric_limits<double>::infinity() : magnitudes[i]);
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
