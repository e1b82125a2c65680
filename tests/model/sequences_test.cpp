#include <numeric>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/tolerances.h"

namespace periscope::testing {
namespace {

/// Returns tokens first … first+count−1 of x.
Tensor tokens_of(const Backend& ops, const Tensor& x, int first, int count) {
  std::vector<int> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), first);
  return ops.gather(x, ids);
}

TEST_CASE("a batch of sequences gives the same results as each sequence alone") {
  constexpr int sequences = 3;
  constexpr int tokens = 5;
  for (const bool causal : {true, false}) {
    StackSpec spec = placed(tiny_stack(), "residual-dual");
    spec.model.causal = causal;
    spec.model.embedding_norm = true;
    spec.input.tokens = sequences * tokens;
    for (const Target& target : targets()) {
      const Backend& ops = *target.backend;
      const GeneratedWeights weights(ops, spec, target.dtype, 4);
      const Tensor input = gaussian_input(ops, spec, target.dtype, 4);
      const RecordedStack all =
          record_stack({.ops = ops, .model = spec.model, .weights = weights, .sequences = sequences}, input);
      for (int s = 0; s < sequences; ++s) {
        const RecordedStack alone = record_stack({.ops = ops, .model = spec.model, .weights = weights},
                                                 tokens_of(ops, input, s * tokens, tokens));
        const std::size_t size = alone.output.size();
        const auto part = [&](const std::vector<double>& x) {
          return std::vector<double>(x.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(s) * size),
                                     x.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(s + 1) * size));
        };
        // The summation order of a matrix product may depend on the number of rows.
        const double relative = stack_error(spec.model.sublayers(), spec.model.query_width(0), target.dtype);
        const std::string what = target.name() + ", sequence " + std::to_string(s);
        for (const auto& [place, x] : alone.site) {
          if (place.second == Signal::x_out || place.second == Signal::r_out) {
            check_close_to_scale(what, part(all.site.at(place)), x, relative);
          }
        }
        check_close_to_scale(what + ", output", part(all.output), alone.output, relative);
      }
    }
  }
}

}  // namespace
}  // namespace periscope::testing
