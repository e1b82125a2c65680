#include "tests/property/arbitrary_stack.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/compare.h"
#include "tests/support/tolerances.h"

namespace periscope::testing {

int any_int(int low, int high) { return *rc::gen::inRange(low, high + 1); }

double any_number(double low, double high) { return low + (high - low) * any_int(0, 100) / 100.0; }

std::uint64_t any_seed() { return static_cast<std::uint64_t>(any_int(0, 1'000'000)); }

StackSpec any_stack() {
  StackSpec spec;
  ModelSpec& m = spec.model;
  m.layers = any_int(1, 3);
  m.width = any_int(8, 24);
  m.heads = any_int(1, 4);
  m.kv_heads = std::gcd(m.heads, any_int(1, 4));
  m.head_dim = 2 * any_int(1, 4);
  m.mlp = any_of({MlpKind::relu, MlpKind::gelu, MlpKind::silu, MlpKind::swiglu, MlpKind::geglu});
  m.mlp_width = any_int(2, 24);
  m.norm = any_of({NormKind::rms, NormKind::layer});
  m.norm_eps = 0.0;
  m.gamma = any_number(0.3, 2.0);
  m.qk_norm = any_of({QkNorm::none, QkNorm::head, QkNorm::full});
  m.rope = any_of({false, true});
  m.causal = any_of({false, true});
  spec.init.scheme = InitScheme::lecun;
  spec.input.tokens = any_int(1, 7);
  spec.input.second_moment = any_number(0.1, 4.0);
  validate(spec);
  return spec;
}

const std::vector<Target>& exact_targets() {
  static const std::vector<Target> found = [] {
    std::vector<Target> exact{truth_target()};
    std::ranges::copy_if(targets(), std::back_inserter(exact), [](const Target& t) { return t.dtype == DType::f64; });
    return exact;
  }();
  return found;
}

void assert_close(std::span<const double> actual, std::span<const double> expected, double relative) {
  double scale = 0.0;
  for (const double x : expected) scale = std::max(scale, std::abs(x));
  const Residual r = residual(actual, expected, relative * scale);
  RC_LOG() << describe(r) << '\n';
  RC_ASSERT(r.worst <= 1.0);
}

double rounding_of(const ModelSpec& m) {
  return stack_error(m.sublayers(), std::max({m.width, m.query_width(0), m.mlp_width}), DType::f64, 4.0);
}

}  // namespace periscope::testing
