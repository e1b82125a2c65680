#include "tests/emulated/sums.h"

#include <algorithm>

namespace periscope::emulated {

Sums::Sums(const Emulation& emulation, const Rounding& in)
    : order_(emulation.order),
      fused_(emulation.fused),
      single_(emulation.arithmetic.accumulated.precision == 24),
      in_(in),
      engine_(emulation.seed + 1) {}

double Sums::products(const double* a, std::int64_t a_stride, const double* b, std::int64_t b_stride, std::int64_t n,
                      double& peak) {
  terms_.clear();
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = a[i * a_stride];
    const double y = b[i * b_stride];
    terms_.push_back({x, y, in_(x * y)});
  }
  fuse_ = fused_;
  return add_up(peak);
}

double Sums::terms(const double* x, std::int64_t n, double& peak) {
  terms_.clear();
  for (std::int64_t i = 0; i < n; ++i) terms_.push_back({x[i], 1.0, x[i]});
  fuse_ = false;
  return add_up(peak);
}

double Sums::add_up(double& peak) {
  if (terms_.empty()) return 0.0;
  const auto sort_by = [&](auto before) { std::ranges::stable_sort(terms_, before); };
  switch (order_) {
    case SumOrder::sequential: break;
    case SumOrder::reversed: std::ranges::reverse(terms_); break;
    case SumOrder::pairwise: return pairwise(0, terms_.size(), peak);
    case SumOrder::lanes: return in_lanes(peak);
    case SumOrder::shuffled: shuffle(); break;
    case SumOrder::positives_first:
      sort_by([](const Term& x, const Term& y) { return x.value > 0.0 && !(y.value > 0.0); });
      break;
    case SumOrder::negatives_first:
      sort_by([](const Term& x, const Term& y) { return x.value < 0.0 && !(y.value < 0.0); });
      break;
    // NaN counts as infinite, so that the comparison is a strict weak order.
    case SumOrder::small_first:
      sort_by([](const Term& x, const Term& y) {
        return std::fmin(std::abs(x.value), HUGE_VAL) < std::fmin(std::abs(y.value), HUGE_VAL);
      });
      break;
    case SumOrder::large_first:
      sort_by([](const Term& x, const Term& y) {
        return std::fmin(std::abs(x.value), HUGE_VAL) > std::fmin(std::abs(y.value), HUGE_VAL);
      });
      break;
  }
  return sequential(peak);
}

double Sums::plus(double acc, const Term& term) const {
  if (!fuse_) return in_(acc + term.value);
  if (in_.is_double()) return std::fma(term.a, term.b, acc);
  if (single_) return std::fma(static_cast<float>(term.a), static_cast<float>(term.b), static_cast<float>(acc));
  // The product is exact in double. Rounding twice differs from rounding once only near ties.
  return in_(acc + term.a * term.b);
}

double Sums::sequential(double& peak) const {
  double sum = terms_.front().value;
  raise(peak, sum);
  for (std::size_t i = 1; i < terms_.size(); ++i) {
    sum = plus(sum, terms_[i]);
    raise(peak, sum);
  }
  return sum;
}

double Sums::pairwise(std::size_t first, std::size_t count, double& peak) const {
  double sum = terms_[first].value;
  if (count > 1) {
    const std::size_t half = count / 2;
    sum = in_(pairwise(first, half, peak) + pairwise(first + half, count - half, peak));
  }
  raise(peak, sum);
  return sum;
}

double Sums::in_lanes(double& peak) const {
  constexpr std::size_t lanes = 4;
  double total = 0.0;
  for (std::size_t lane = 0; lane < std::min(lanes, terms_.size()); ++lane) {
    double sum = terms_[lane].value;
    raise(peak, sum);
    for (std::size_t i = lane + lanes; i < terms_.size(); i += lanes) {
      sum = plus(sum, terms_[i]);
      raise(peak, sum);
    }
    total = lane == 0 ? sum : in_(total + sum);
    raise(peak, total);
  }
  return total;
}

/// Fisher–Yates shuffle; the result of std::shuffle depends on the library.
void Sums::shuffle() {
  for (std::size_t i = terms_.size() - 1; i > 0; --i) std::swap(terms_[i], terms_[engine_() % (i + 1)]);
}

}  // namespace periscope::emulated
