#include "tests/support/doctest.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>

#include "tests/certify/aligned_weights.h"
#include "tests/certify/certified_stack.h"

/// Partial sums in FP16, the factor that prevents their overflow, and runs that read rounded keys and values.
namespace periscope::testing {
namespace {

using theory::ComputedOps;
using theory::ProductBound;

/// Returns the largest partial sum of Σ w_j x_j, computed in FP16 from left to right.
double largest_partial_sum(const std::vector<double>& w, const std::vector<double>& x, int shift) {
  double sum = 0.0, largest = 0.0;
  for (std::size_t j = 0; j < w.size(); ++j) {
    const double scaled = theory::rounded_to(fp16, std::ldexp(x[j], -shift));
    sum = theory::rounded_to(fp16, sum + theory::rounded_to(fp16, w[j] * scaled));
    largest = std::max(largest, std::isnan(sum) ? theory::infinity : std::abs(sum));
  }
  return largest;
}

TEST_CASE("partial sums in FP16 attain their bounds, and the curing shift is the smallest one that prevents overflow") {
  std::mt19937 engine(3);
  std::normal_distribution<double> normal;
  int cured = 0;
  for (int draw = 0; draw < 300; ++draw) {
    const int n = 1 + 40 * (draw % 5);
    const double size = std::pow(4.0, draw % 8);
    std::vector<double> w(static_cast<std::size_t>(n)), x(w.size());
    theory::RowMatrix row(1, n);
    for (std::size_t j = 0; j < w.size(); ++j) {
      w[j] = row(0, static_cast<theory::Index>(j)) = theory::rounded_to(fp16, normal(engine));
      x[j] = std::copysign(theory::rounded_to(fp16, size), w[j]);
    }
    ComputedOps ops(run_arithmetic(Arithmetic::mixed, fp16), 1);
    const theory::Vector far = theory::Vector::Constant(n, size);
    (void)ops.linear(Weight::up, row, {}, {-far, far, {}});
    const std::vector<ProductBound> products = ops.take_products();
    REQUIRE(products.size() == 1);
    const ProductBound& p = products.front();
    INFO(n, " products of inputs up to ", size);
    const double rounding = 1.0 + 2.0 * n * fp16.unit_roundoff();
    const double reached = largest_partial_sum(w, x, 0);
    if (std::isfinite(reached)) {
      CHECK(reached <= p.sums_in(fp16));
      CHECK(reached * rounding >= p.sums_in(fp16) * (1.0 - 1e-9));
    }
    const int shift = p.curing_shift(fp16).value();
    CHECK(largest_partial_sum(w, x, shift) <= fp16.largest);
    if (shift == 0) continue;
    ++cured;
    CHECK(p.sums_in(fp16, shift - 1) > fp16.largest);
    const bool overflows = std::ldexp(p.absolute, 1 - shift) > fp16.largest * rounding;
    if (overflows) CHECK(largest_partial_sum(w, x, shift - 1) > fp16.largest);
  }
  CHECK(cured > 50);
}

TEST_CASE("a certificate lists every product; its partial sums are at most the bound of the sublayer") {
  StackSpec spec = token_stack("pre");
  spec.model.mlp = MlpKind::swiglu;
  spec.model.unembedding = true;
  const GeneratedWeights weights(truth(), spec, DType::f64, 1);
  const theory::Certificate c = certify(spec.model, weights, {}, run_arithmetic(Arithmetic::mixed, fp16), 4);
  std::set<std::string> attention, mlp, head;
  for (const ProductBound& p : c.products) {
    auto& names = p.sublayer == spec.model.sublayers() ? head : ModelSpec::is_attention(p.sublayer) ? attention : mlp;
    names.insert(std::string(p.name));
    CHECK(p.sums_in(fp32) <= c.find(Signal::sums, p.sublayer)->largest * (1.0 + 1e-12));
    CHECK(p.absolute > 0.0);
  }
  CHECK(attention == std::set<std::string>{"q", "k", "v", "o", "dots", "mixed"});
  CHECK(mlp == std::set<std::string>{"gate", "up", "down"});
  CHECK(head == std::set<std::string>{"unembedding"});
  CHECK(certify(spec.model, weights).products.empty());
}

/// Rounds keys and values to a format, as a cache does.
class RoundedCache final : public SignalReplacer {
 public:
  explicit RoundedCache(const NumberFormat& format) : format_(format) {}
  Tensor replaced(const Emission& at, const Tensor& x) override {
    if (at.pass != Pass::forward || (at.signal != Signal::k && at.signal != Signal::v)) return x;
    std::vector<double> values = truth().to_host(x);
    for (double& value : values) value = theory::rounded_to(format_, value);
    return truth().from_host(x.rows(), x.cols(), x.dtype(), values);
  }

 private:
  NumberFormat format_;
};

TEST_CASE("runs with a cache in FP8 stay within the bounds for it, but not within those without") {
  const NumberFormat fp8{"E4M3 without a limit", 1e30, 4, -6};
  const RunArithmetic f64 = run_arithmetic(Arithmetic::pure, fp64);
  int exceeded = 0;
  for (const char* placement : {"pre", "post", "peri", "b-only", "none"}) {
    for (const QkNorm qk_norm : {QkNorm::none, QkNorm::head, QkNorm::full}) {
      for (const bool v_norm : {false, true}) {
        StackSpec spec = placed(tiny_stack(), placement);
        spec.model.qk_norm = qk_norm;
        spec.model.v_norm = v_norm;
        INFO(placement, " ", static_cast<int>(qk_norm), " ", v_norm);
        for (const double size : {1.0, 1.3, 1.7}) {
          const AlignedWeights weights(spec, Direction::spike, 0.1);
          const StackContext context{.ops = truth(), .model = spec.model, .weights = weights.source()};
          const config::TheoryParameters parameters(truth(), spec.model, weights.source());
          const theory::InputDomain domain{false, size};
          const theory::Certificate cached = theory::certify(spec.model, parameters, domain, f64, 4, {fp8});
          const theory::Certificate plain = theory::certify(spec.model, parameters, domain, f64, 4);
          RoundedCache cache(fp8);
          certify::SignalMaxima seen;
          seen.add(context, weights.input(size, {1.0, -1.0, 0.5, 1.0}), {.replacers = {&cache}});
          for (std::size_t i = 0; i < cached.bounds.size(); ++i) {
            const theory::SignalBound& b = cached.bounds[i];
            const double found = seen.largest(b.signal, b.sublayer);
            if (b.signal == Signal::weights || std::isnan(found)) continue;
            INFO(name_of(b.signal), "[", b.sublayer, "]: ", found, " of ", b.largest);
            const bool is_cached = theory::class_of(b.signal) == theory::SignalClass::cache;
            CHECK(found <= (is_cached ? theory::rounded_to(fp8, b.largest) : b.largest));
            CHECK(cached.limit(b) == (is_cached ? fp8.largest : fp64.largest));
            if (!is_cached && found > plain.bounds[i].largest) ++exceeded;
          }
        }
      }
    }
  }
  CHECK(exceeded > 0);
}

}  // namespace
}  // namespace periscope::testing
