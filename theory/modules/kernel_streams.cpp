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

KernelStreams::KernelStreams(const ChannelKernel& x, int streams, int width)
    : width_(width), own_(static_cast<std::size_t>(streams), x), cross_(own_.size(), std::vector<Matrix>(own_.size())) {
  for (std::size_t i = 0; i < own_.size(); ++i) {
    for (std::size_t j = i + 1; j < own_.size(); ++j) cross_[i][j] = x.total.product;
  }
}

Matrix KernelStreams::product(std::size_t i, std::size_t j) const {
  if (i == j) return own_[i].total.product;
  return i < j ? cross_[i][j] : Matrix(cross_[j][i].transpose());
}

Matrix KernelStreams::between(const std::vector<double>& a, const std::vector<double>& b) const {
  Matrix sum;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      const double weight = a[i] * b[j];
      if (weight == 0.0 && own_.size() > 1) continue;
      if (sum.size() == 0) {
        sum = weight == 1.0 ? product(i, j) : Matrix(weight * product(i, j));
      } else {
        sum += weight * product(i, j);
      }
    }
  }
  const Index tokens = own_.front().total.product.rows();
  return sum.size() == 0 ? Matrix(Matrix::Zero(tokens, tokens)) : sum;
}

ChannelKernel KernelStreams::sum(const std::vector<double>& weights) const {
  if (const std::optional<std::size_t> only = only_entry(weights)) {
    return weights[*only] == 1.0 ? own_[*only] : combined(weights[*only], own_[*only], 0.0, own_[*only]);
  }
  for (std::size_t i = 0; i < own_.size(); ++i) {
    if (weights[i] != 0.0 && !own_[i].is_uniform()) {
      throw std::logic_error("streams whose channels differ in size cannot be mixed");
    }
  }
  return {TokenKernel::of_independent_features(between(weights, weights), width_), {}};
}

bool KernelStreams::are_equal() const {
  for (std::size_t i = 1; i < own_.size(); ++i) {
    if (own_[i].total.product != own_[0].total.product || cross_[0][i] != own_[0].total.product) return false;
  }
  return true;
}

void KernelStreams::add(const Step& step, const std::vector<ChannelKernel>& branches) {
  const KernelStreams before = own_.size() == 1 ? KernelStreams({}, 0, width_) : *this;
  for (std::size_t i = 0; i < own_.size(); ++i) {
    // α x + β b, in one sum where there is one of each, as T6 has it.
    ChannelKernel x;
    std::size_t b = 0;
    if (const std::optional<std::size_t> only = only_entry(step.mixing[i])) {
      const ChannelKernel& from = own_.size() == 1 ? own_.front() : before.own_[*only];
      x = combined(step.mixing[i][*only], from, step.branches[0].writes[i], branches[0]);
      b = 1;
    } else {
      x = before.sum(step.mixing[i]);
    }
    for (; b < branches.size(); ++b) x = combined(1.0, x, step.branches[b].writes[i], branches[b]);
    own_[i] = std::move(x);
    for (std::size_t j = i + 1; j < own_.size(); ++j) {
      Matrix cross = before.between(step.mixing[i], step.mixing[j]);
      for (std::size_t k = 0; k < branches.size(); ++k) {
        const double weight = step.branches[k].writes[i] * step.branches[k].writes[j];
        if (weight != 0.0) cross += weight * branches[k].total.product;
      }
      cross_[i][j] = std::move(cross);
    }
  }
}

void KernelStreams::normalise(std::size_t stream, ChannelKernel normalised, const Vector& scale) {
  own_[stream] = std::move(normalised);
  for (std::size_t j = 0; j < own_.size(); ++j) {
    if (j > stream) cross_[stream][j] = scale.asDiagonal() * cross_[stream][j];
    if (j < stream) cross_[j][stream] = cross_[j][stream] * scale.asDiagonal();
  }
}

}  // namespace periscope::theory
