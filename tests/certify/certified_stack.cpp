#include "tests/certify/certified_stack.h"

#include <fmt/format.h>

#include <algorithm>

namespace periscope::testing {

SublayerWeights BiasedWeights::fetch(int sublayer) const {
  SublayerWeights all = source_.fetch(sublayer);
  for (auto& [weight, linear] : all.linear) {
    if (is_table(weight)) continue;
    const auto layer = static_cast<std::uint32_t>(is_of_layer(weight) ? sublayer / 2 : 0);
    const StreamKey key{91, layer, Stream{2100 + static_cast<std::uint32_t>(weight)}};
    const Tensor w = linear.map->dense();
    const Tensor added = backend_.normal(1, w.rows(), w.dtype(), key, scale_);
    linear.bias = linear.bias.empty() ? added : backend_.axpby(1.0, linear.bias, 1.0, added);
  }
  return all;
}

Tightness compare(const theory::Certificate& certificate, const certify::SignalMaxima& maxima) {
  Tightness t;
  const auto outside = [](const theory::SignalBound& b) { return !is_of_arithmetic(b.signal); };
  if (std::ranges::count_if(certificate.bounds, outside) != static_cast<std::ptrdiff_t>(maxima.size())) {
    return {theory::infinity, "another number of signals"};
  }
  for (const theory::SignalBound& bound : certificate.bounds) {
    if (!outside(bound)) continue;
    const std::string name = fmt::format("{}[{}]", name_of(bound.signal), bound.sublayer);
    const std::vector<double>* seen = maxima.find(bound.signal, bound.sublayer);
    if (seen == nullptr || static_cast<Eigen::Index>(seen->size()) != bound.magnitude.size()) {
      return {theory::infinity, name + " has another shape"};
    }
    for (std::size_t k = 0; k < seen->size(); ++k) {
      const double limit = bound.magnitude[static_cast<Eigen::Index>(k)];
      const double ratio = (*seen)[k] == 0.0 ? 0.0 : (*seen)[k] / limit;
      if (ratio > t.worst) t = {ratio, fmt::format("{} feature {}: {:.6g} of {:.6g}", name, k, (*seen)[k], limit)};
    }
  }
  return t;
}

}  // namespace periscope::testing
