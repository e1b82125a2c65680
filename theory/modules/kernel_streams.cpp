#include "theory/modules/kernel_streams.h"

#include <stdexcept>
#include <utility>

namespace periscope::theory {

std::optional<std::size_t> only_entry(const std::vector<double>& weights) {
  if (weights.size() == 1) return 0;
  std::optional<std::size_t> only;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0.0) continue;
    if (only) return std::nullopt;
    only = i;
  }
  return only;
}

ChannelKernel KernelStreams::sum(const std::vector<double>& weights) const {
  if (const std::optional<std::size_t> only = only_entry(weights)) {
    return weights[*only] == 1.0 ? own_[*only] : combined(weights[*only], own_[*only], 0.0, own_[*only]);
  }
  for (std::size_t i = 0; i < own_.size(); ++i) {
    if (weights[i] != 0.0 && !own_[i].is_uniform()) {
      throw std::logic_error("unsupported: mixing streams whose channels differ in size");
    }
  }
  return {TokenKernel::of_independent_features(between(weights, weights), width_), {}};
}

bool KernelStreams::are_equal() const {
  for (std::size_t i = 1; i < own_.size(); ++i) {
    if (own_[i].total.product != own_[0].total.product || pairs_(0, i) != own_[0].total.product) return false;
  }
  return true;
}

void KernelStreams::add(const Step& step, const std::vector<ChannelKernel>& branches) {
  std::vector<ChannelKernel> next;
  for (std::size_t i = 0; i < own_.size(); ++i) {
    // With one source stream, αx + βb (T6) is a single sum.
    const std::optional<std::size_t> only = only_entry(step.mixing[i]);
    ChannelKernel x = only ? combined(step.mixing[i][*only], own_[*only], step.branches[0].writes[i], branches[0])
                           : sum(step.mixing[i]);
    for (std::size_t b = only ? 1 : 0; b < branches.size(); ++b) {
      x = combined(1.0, x, step.branches[b].writes[i], branches[b]);
    }
    next.push_back(std::move(x));
  }
  own_ = std::move(next);
  pairs_ = pairs_.mixed(step.mixing);
  for (std::size_t b = 0; b < branches.size(); ++b) pairs_.add(step.branches[b].writes, branches[b].total.product);
  update_diagonal_pairs();
}

void KernelStreams::normalise(std::size_t stream, ChannelKernel normalised, const Vector& scale) {
  own_[stream] = std::move(normalised);
  pairs_.scale(stream, scale, scale);
  update_diagonal_pairs();
}

void KernelStreams::update_diagonal_pairs() {
  for (std::size_t i = 0; i < pairs_.count(); ++i) pairs_(i, i) = own_[i].total.product;
}

}  // namespace periscope::theory
