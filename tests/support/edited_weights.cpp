#include "tests/support/edited_weights.h"

#include <cmath>
#include <vector>

namespace periscope::testing {

EditedWeights::NormEdit random_norms(const Backend& backend) {
  return [&backend](int sublayer, NormSite site, const NormWeights& w) {
    constexpr std::uint64_t seed = 17;
    const auto place = static_cast<std::uint32_t>(sublayer);
    const auto tensor = 200 + static_cast<std::uint32_t>(site);
    const DType dtype = w.gain.dtype();
    std::vector<double> gain = backend.to_host(backend.normal(1, w.gain.cols(), dtype, {seed, place, tensor}, 1.0));
    for (double& g : gain) g = std::abs(g) + 0.5;
    NormWeights edited{.gain = backend.from_host(1, w.gain.cols(), dtype, gain), .bias = {}};
    if (!w.bias.empty()) edited.bias = backend.normal(1, w.bias.cols(), dtype, {seed + 1, place, tensor}, 1.0);
    return edited;
  };
}

}  // namespace periscope::testing
