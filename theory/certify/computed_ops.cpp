#include "theory/certify/computed_ops.h"

#include <utility>

#include "theory/certify/rounded_parameters.h"

namespace periscope::theory {
namespace {

Vector constant(Index n, double x) { return Vector::Constant(n, x); }

/// Returns u|x| + η of every feature, rounded up.
Vector rounding_error(const Vector& magnitude, double u, double eta) {
  return magnitude.unaryExpr([=](double m) { return outward(u * m + eta); });
}

/// Returns κ = u + (n−1)u(1+u), the relative error of a sum of n products.
double relative_error(Index n, double u) { return outward(u + static_cast<double>(n - 1) * u * (1.0 + u)); }

/// Returns the absolute error nη(1 + (n−1)u) of a sum of n products.
double absolute_error(Index n, double u, double eta) {
  const auto terms = static_cast<double>(n);
  return outward(terms * eta * (1.0 + (terms - 1.0) * u));
}

BoundedSet rounded_set(BoundedSet x, double u, double eta) {
  const Vector slack = rounding_error(x.magnitude(), u, eta);
  x.low -= slack;
  x.high += slack;
  if (x.ellipsoid) {
    Ellipsoid& e = *x.ellipsoid;
    e.error += rounding_error(e.error + e.centre.cwiseAbs(), u, eta);
    e.error *= 1.0 + rounding(0);
    e.axes *= (1.0 + u) * (1.0 + rounding(0));
    e.centred = false;
  }
  return cleaned(std::move(x));
}

}  // namespace

double ProductBound::sums_in(const NumberFormat& format, int shift) const {
  const double u = format.unit_roundoff(), eta = format.smallest_subnormal();
  const double scaled = std::ldexp(absolute, -shift) + (shift > 0 ? weights * eta : 0.0);
  return outward(scaled * (1.0 + relative_error(terms, u)) + absolute_error(terms, u, eta));
}

std::string_view ProductBound::operand() const {
  return name == name_of(Signal::dots) ? "queries" : name == name_of(Signal::mixed) ? "values" : "the input";
}

std::optional<int> ProductBound::curing_shift(const NumberFormat& format) const {
  constexpr int most = 1100;  // 2^−1100 is 0 in every format
  for (int shift = 0; std::isfinite(absolute) && shift < most; ++shift) {
    if (sums_in(format, shift) <= format.largest) return shift;
  }
  return std::nullopt;
}

ComputedOps::ComputedOps(const RunArithmetic& arithmetic, Index longest, const std::vector<NumberFormat>& cached)
    : arithmetic_(arithmetic), longest_(std::max<Index>(longest, 1)), exact_(arithmetic.kind == Arithmetic::exact) {
  if (exact_) return;
  u_ = arithmetic.stored.unit_roundoff();
  eta_ = arithmetic.stored.smallest_subnormal();
  sum_u_ = arithmetic.accumulated.unit_roundoff();
  sum_eta_ = arithmetic.accumulated.smallest_subnormal();
  for (const NumberFormat& format : cached) {
    cache_u_ = std::max(cache_u_, format.unit_roundoff());
    cache_eta_ = std::max(cache_eta_, format.smallest_subnormal());
  }
}

double ComputedOps::rounded(double x) const { return exact_ ? x : rounded_to(arithmetic_.stored, x); }

double ComputedOps::sum_factor(Index n) const { return relative_error(n, sum_u_); }

double ComputedOps::sum_underflow(Index n) const { return absolute_error(n, sum_u_, sum_eta_); }

void ComputedOps::record(Signal signal, double magnitude) {
  if (exact_) return;
  double& maximum = maxima_.try_emplace(signal, 0.0).first->second;
  if (!(magnitude <= maximum)) maximum = std::isnan(magnitude) ? infinity : magnitude;
}

void ComputedOps::record(const ProductBound& product) {
  auto at = std::ranges::find(products_, product.name, &ProductBound::name);
  if (at == products_.end()) at = products_.insert(at, {.name = product.name, .terms = product.terms});
  at->absolute = std::max(at->absolute, std::isnan(product.absolute) ? infinity : product.absolute);
  at->weights = std::max(at->weights, product.weights);
}

std::map<Signal, double> ComputedOps::take_maxima() { return std::exchange(maxima_, {}); }

std::vector<ProductBound> ComputedOps::take_products() { return std::exchange(products_, {}); }

BoundedSet ComputedOps::stored(BoundedSet x) const { return exact_ ? x : rounded_set(std::move(x), u_, eta_); }

ComputedImage ComputedOps::cached(ComputedImage x) const {
  if (cache_u_ == 0.0) return x;
  x.error = (x.error + rounding_error(x.set.magnitude(), cache_u_, cache_eta_)) * (1.0 + rounding(0));
  x.set = rounded_set(std::move(x.set), cache_u_, cache_eta_);
  return x;
}

ComputedImage ComputedOps::summed(Weight weight, const RowMatrix& w, LinearImage image, const Vector& bias) {
  if (exact_) {
    BoundedSet set = bias.size() > 0 ? shifted(std::move(image.set), bias) : std::move(image.set);
    return {std::move(set), Vector::Zero(image.absolute.size())};
  }
  const Index n = w.cols();
  Vector error = rounding_error(image.absolute, sum_factor(n), sum_underflow(n));
  record(Signal::sums, largest_of(image.absolute + error));
  record({.name = name_of(weight),
          .terms = n,
          .absolute = largest_of(image.absolute),
          .weights = outward(w.cwiseAbs().rowwise().sum().maxCoeff(), n)});
  BoundedSet y = widened(std::move(image.set), error);
  error += rounding_error(y.magnitude(), u_, eta_);
  y = stored(std::move(y));
  if (bias.size() > 0) {
    record(Signal::products, largest_of(y.magnitude()));
    y = shifted(std::move(y), bias);
    error += rounding_error(y.magnitude(), u_ + rounding(0), eta_);
    y = stored(std::move(y));
  }
  return {std::move(y), error * (1.0 + rounding(0))};
}

BoundedSet ComputedOps::linear(Weight weight, const RowMatrix& w, const Vector& bias, const BoundedSet& x) {
  return summed(weight, w, image_and_sums(w, x), bias).set;
}

Mapped ComputedOps::mapped(Weight weight, const RowMatrix& w, const Vector& bias, const BoundedSet& x) {
  Mapped y;
  LinearImage image = image_and_sums(w, x);
  if (x.ellipsoid) {
    y.centre = centre_of(w, *x.ellipsoid);
    y.axes = axes_image(w, *x.ellipsoid);
    const double radius = outward(spectral_bound(y.axes.matrix) + y.axes.error);
    image.set.ellipsoid = Ellipsoid{y.centre.value, constant(w.rows(), radius), y.centre.error, false};
    image.set = cleaned(std::move(image.set));
  }
  ComputedImage computed = summed(weight, w, std::move(image), bias);
  y.image = std::move(computed.set);
  if (!x.ellipsoid) return y;
  if (bias.size() > 0) {
    y.centre.error += rounding(0) * (y.centre.value.cwiseAbs() + bias.cwiseAbs());
    y.centre.value += bias;
  }
  y.centre.error = (y.centre.error + computed.error) * (1.0 + rounding(0));
  return y;
}

// Notation as in docs/theory/certificates.md. The norm divides by √t, t = fl(fl(S/D) + fl(ε)), with S the computed sum
// of squares (L2 norm: no division by D, and D = 1 below). ‖x‖² ≤ κD(t(1+u') − ε + 2η'), κ = (1+u')³(1+(D−1)u'); for
// one feature κ₁ = (1+u')⁴.
BoundedSet ComputedOps::normalised(const BoundedSet& x, const NormBound& norm) {
  if (is_pointwise(norm.kind)) return pointwise_normalised(x, norm);
  if (exact_) return theory::normalised(x, norm);
  const auto d = static_cast<double>(x.size());
  const double count = formula_of(norm.kind).count(d);
  const double v = sum_u_;
  BoundedSet box{x.low, x.high, {}};
  double radius = x.norm();
  if (subtracts_mean(norm.kind)) {
    const double sum_bound = std::min(outward(x.magnitude().sum(), x.size()), outward(std::sqrt(d) * radius));
    const double count_error = 2.0 * v * sum_bound * (1.0 + d * v) / d;  // D itself is rounded
    const double mean_error = outward(v * (1.0 + v) * sum_bound + count_error + sum_eta_);
    record(Signal::sums, outward(sum_bound * (1.0 + d * v)));
    box = widened(without_mean(x), constant(x.size(), mean_error));
    box = widened(box, rounding_error(box.magnitude(), v, 0.0));
    record(Signal::deviations, largest_of(box.magnitude()));
    radius = outward((1.0 + v) * (radius + std::sqrt(d) * mean_error));
  }
  radius = std::min(radius, norm_of(box.magnitude()));
  const double terms = 1.0 + (d - 1.0) * v;
  record(Signal::squares, outward((radius * radius * (1.0 + v) + d * sum_eta_) * terms + norm.eps));
  record(Signal::squares, d);
  const double eps = rounded_to(arithmetic_.accumulated, norm.eps);
  const double least = std::min(norm.eps, eps) - 2.0 * sum_eta_;
  if (!(least > 0.0)) {
    record(Signal::reciprocals, infinity);
    record(Signal::normalised, infinity);
    return unbounded(x.size());
  }
  record(Signal::reciprocals, outward((1.0 + 4.0 * v) / std::sqrt(eps)));

  const double steps = std::sqrt(1.0 + v) * (1.0 + 4.0 * v) * (1.0 + v) * (1.0 + rounding(16));
  const auto normed = [&](double m, double kappa) {
    return normalised_magnitude(m, count * kappa * (1.0 + rounding(0)), least) * steps;
  };
  const double quotients = (1.0 + v) * (1.0 + v) * (1.0 + v);
  const auto of_feature = [&](double m) { return normed(m, quotients * (1.0 + v)); };
  const double all = normed(radius, quotients * terms);

  // Then x̂ is rounded to the stored format, multiplied by the rounded gain, rounded, added to the bias and rounded.
  // Implementations that use a wider format for some of these steps round less.
  const double growth = (1.0 + u_) * (1.0 + 2.0 * u_) * (1.0 + u_) * (1.0 + v) * (1.0 + v) * (1.0 + rounding(16));
  const Vector bias = norm.bias.size() > 0 ? norm.bias : Vector::Zero(x.size());
  BoundedSet y{Vector(x.size()), Vector(x.size()), {}};
  Vector underflow_error(x.size());
  for (Index k = 0; k < x.size(); ++k) {
    const double up = of_feature(std::max(box.high[k], 0.0));
    const double down = of_feature(std::max(-box.low[k], 0.0));
    const double gain = norm.gain[k];
    const double size = std::abs(gain);
    const double far = std::max(up, down);
    const double tiny = sum_eta_ + eta_;
    underflow_error[k] = outward(4.0 * ((size + eta_) * tiny + eta_ * far + tiny), 8);
    record(Signal::normalised, outward((far + sum_eta_) * (1.0 + u_) + eta_));
    record(Signal::normalised, outward(size * far * growth + underflow_error[k]));
    const double above = outward(size * (gain >= 0.0 ? up : down) * growth + underflow_error[k]);
    const double below = outward(size * (gain >= 0.0 ? down : up) * growth + underflow_error[k]);
    y.low[k] = bias[k] - below - rounding(0) * std::abs(bias[k]);
    y.high[k] = bias[k] + above + rounding(0) * std::abs(bias[k]);
  }
  y.ellipsoid = Ellipsoid{bias, norm.gain * (all * growth), underflow_error, false};
  y = cleaned(std::move(y));
  return norm.bias.size() > 0 ? stored(std::move(y)) : y;
}

// A computed σ is at most 1: 1 + e^−x is at least 1, rounding is monotone, and every format contains 1. Its error comes
// from the exponential (at most 4u'), the sum, the quotient and the result. If e^−x overflows, the computed σ is 0 and
// the exact one is below any normal number, or below 1/largest in a narrow format.
BoundedSet ComputedOps::sigmoid(const BoundedSet& x) const {
  const double relative = 16.0 * rounding(0) + (exact_ ? 0.0 : 8.0 * sum_u_ + 2.0 * u_);
  const double absolute =
      underflow(0) + (exact_ ? 0.0 : 2.0 * (sum_eta_ + eta_ + 1.0 / arithmetic_.accumulated.largest));
  BoundedSet y = unbounded(x.size());
  for (Index k = 0; k < x.size(); ++k) {
    const auto at = [](double u) { return 1.0 / (1.0 + std::exp(-u)); };
    const double low = at(x.low[k]);
    const double high = at(x.high[k]);
    y.low[k] = std::isnan(low) ? 0.0 : std::max(0.0, low * (1.0 - relative) - absolute);
    y.high[k] = std::isnan(high) ? 1.0 : std::min(1.0, high * (1.0 + relative) + absolute);
  }
  return y;
}

BoundedSet ComputedOps::scaled(double k, const BoundedSet& x) {
  if (exact_ || k == 0.0 || k == 1.0) return k == 1.0 ? x : theory::scaled(k, x);
  const double in_format = rounded_to(arithmetic_.stored, k);
  if (std::isinf(in_format)) return unbounded(x.size());
  BoundedSet y = stored(theory::scaled(k, x));
  // k itself may be rounded, with error u|k|, or η if it is subnormal.
  if (in_format != k) y = widened(stored(std::move(y)), rounding_error(x.magnitude(), eta_ * (1.0 + u_), 0.0));
  record(Signal::addends, largest_of(y.magnitude()));
  return y;
}

BoundedSet ComputedOps::weighted_sum(double alpha, const BoundedSet& x, double beta, const BoundedSet& y) {
  if (exact_) return theory::weighted_sum(alpha, x, beta, y);
  return stored(theory::weighted_sum(1.0, scaled(alpha, x), 1.0, scaled(beta, y)));
}

ComputedImage ComputedOps::activated(Activation activation, const BoundedSet& x) {
  BoundedSet y = theory::activated(activation, x);
  if (exact_) return {y, Vector::Zero(x.size())};
  // The tanh form is also implemented as separate stored operations (GPT-2's gelu_new); 1 + tanh cancels for x < 0.
  const bool chain = activation == Activation::gelu_tanh;
  const double step = chain ? std::max(u_, sum_u_) : sum_u_;
  const double absolute = chain ? 4.0 * std::max(eta_, sum_eta_) : sum_eta_;
  Vector error = rounding_error(x.magnitude(), 8.0 * step, absolute);
  // Radius of the ball: ‖8u'|x|‖ ≤ 8u'‖x‖.
  const double radius = outward(x.norm() * (1.0 + 8.0 * step));
  y = widened(std::move(y), error);
  y.ellipsoid = ellipsoid_around(Vector::Zero(x.size()), constant(x.size(), radius));
  y.ellipsoid->error.setConstant(outward(absolute));
  error += rounding_error(y.magnitude(), u_, eta_);
  return {stored(cleaned(std::move(y))), error * (1.0 + rounding(0))};
}

BoundedSet ComputedOps::soft_capped(double cap, const BoundedSet& x) {
  BoundedSet y = theory::soft_capped(cap, x);
  if (exact_) return y;
  record(Signal::cap_inputs, cap_input(largest_of(x.magnitude()), cap));
  if (std::isinf(cap_input(0.0, cap))) return unbounded(x.size());
  const Vector error = rounding_error(y.magnitude(), 16.0 * u_, 4.0 * (cap + 1.0) * eta_);
  return widened(std::move(y), error);
}

double ComputedOps::cap_input(double z, double cap) const {
  const double in_format = rounded_to(arithmetic_.stored, cap);
  const double least = std::min(cap, in_format) * (1.0 - rounding(0));
  if (!(least > 0.0) || std::isinf(in_format)) return infinity;
  return outward(z / least * (1.0 + u_) * (1.0 + sum_u_) + eta_);
}

WeightSum ComputedOps::attention_weights(Index seen) {
  return exact_ ? WeightSum() : softmax_sum(static_cast<double>(seen > 0 ? std::min(seen, longest_) : longest_));
}

WeightSum ComputedOps::softmax_sum(double n) {
  const double sum_growth = 1.0 + (n - 1.0) * sum_u_;
  const double tiny = n * (eta_ + sum_eta_);
  record(Signal::denominators, outward(n * (1.0 + 4.0 * sum_u_) * sum_growth));
  const double high = sum_growth * (1.0 + sum_u_) * (1.0 + sum_u_) * (1.0 + u_) + 2.0 * tiny;
  const double low = (1.0 - sum_u_) * (1.0 - u_) / (sum_growth * (1.0 + sum_u_)) - 2.0 * tiny;
  return {std::max(0.0, low * (1.0 - rounding(8))), outward(high, 8)};
}

ComputedImage ComputedOps::weighted_values(const WeightSum& weights, Index seen, const BoundedSet& v) {
  if (exact_) return {{v.low, v.high, {}}, Vector::Zero(v.size())};
  const Index n = seen > 0 ? std::min(seen, longest_) : longest_;
  const double absolute = largest_of(v.magnitude() * (weights.high * (1.0 + rounding(0))));
  record({.name = name_of(Signal::mixed), .terms = n, .absolute = absolute, .weights = weights.high});
  return averaged(weights, v, sum_factor(n), sum_underflow(n), Signal::sums);
}

ComputedImage ComputedOps::averaged(const WeightSum& weights, const BoundedSet& v, double relative, double absolute,
                                    Signal partial) {
  const BoundedSet factor{constant(v.size(), weights.low), constant(v.size(), weights.high), {}};
  const Vector magnitude = v.magnitude() * (weights.high * (1.0 + rounding(0)));
  Vector error = rounding_error(magnitude, relative, absolute);
  record(partial, largest_of(magnitude + error));
  BoundedSet y = widened(interval_product({v.low, v.high, {}}, factor), error);
  error += rounding_error(y.magnitude(), u_, eta_);
  return {stored(std::move(y)), error * (1.0 + rounding(0))};
}

// Runs accumulate the experts' outputs in the stored format or a wider one.
BoundedSet ComputedOps::mixed_experts(const ExpertSpec& experts, double logit, const BoundedSet& x) {
  const auto n = static_cast<double>(experts.count), k = static_cast<double>(experts.per_token);
  WeightSum weights{.low = experts.normalised ? 1.0 : k / n, .high = 1.0};
  if (!exact_) {
    record(Signal::deviations, outward(2.0 * logit * (1.0 + 2.0 * u_) + eta_));
    const WeightSum all = softmax_sum(n);
    weights = {all.low * weights.low * (1.0 - 8.0 * sum_u_) * (1.0 - rounding(0)), all.high};
    if (experts.normalised) {
      // The largest weight must not round to 0, or else the division by the sum of the chosen weights gives 0/0.
      const double denominator = n * (1.0 + 4.0 * sum_u_) * (1.0 + (n - 1.0) * sum_u_);
      const double largest = (1.0 - 4.0 * sum_u_) * (1.0 - sum_u_) * (1.0 - u_) / denominator * (1.0 - rounding(8));
      if (n > 1.0 && !(largest > eta_ + sum_eta_)) return unbounded(x.size());
      weights = softmax_sum(k);
    }
  }
  // A single weight is 1 in every arithmetic: a positive number divided by itself.
  const bool is_one = experts.per_token == 1 && (experts.normalised || experts.count == 1);
  if (is_one || (exact_ && weights.low == 1.0)) return x;
  const double u = std::max(u_, sum_u_), eta = std::max(eta_, sum_eta_);
  return averaged(weights, x, exact_ ? 0.0 : relative_error(experts.per_token, u),
                  exact_ ? 0.0 : absolute_error(experts.per_token, u, eta), Signal::addends)
      .set;
}

ComputedOps::Score ComputedOps::score(double dot, double query, double key, Index n, double scale, double soft_cap) {
  if (exact_) {
    const double z = outward(scale * dot);
    return {dot, z, soft_cap > 0.0 ? std::min(soft_cap, z) : z};
  }
  const double norms = outward(query * key);
  const double error = sum_factor(n) * norms + sum_underflow(n);
  record(Signal::sums, outward(norms + error));
  const double keys = outward(std::sqrt(static_cast<double>(n)) * key);
  record({.name = name_of(Signal::dots), .terms = n, .absolute = norms, .weights = keys});
  const double stored_dot = outward((dot + error) * (1.0 + u_) + eta_);
  const double in_format = rounded_to(arithmetic_.stored, scale);
  const double factor = std::max(scale, in_format) * (1.0 + u_) + eta_;
  const double scaled_dot = outward(factor * stored_dot * (1.0 + u_) + eta_);
  const double query_underflow = std::sqrt(static_cast<double>(n)) * eta_;  // η in every feature of the scaled query
  const double scaled_query = outward(factor * query * (1.0 + u_) + query_underflow);
  record(Signal::products, scaled_query);
  const double query_error = (3.0 * u_ * scale + 2.0 * eta_) * norms + query_underflow * key;
  const double sums = sum_factor(n) * scaled_query * key + sum_underflow(n);
  record(Signal::sums, outward(scaled_query * key + sums));
  record({.name = name_of(Signal::dots), .terms = n, .absolute = outward(scaled_query * key), .weights = keys});
  const double dot_of_scaled = outward((scale * dot + query_error + sums) * (1.0 + u_) + eta_);
  const double z = std::isnan(scaled_dot + dot_of_scaled) ? infinity : std::max(scaled_dot, dot_of_scaled);
  const double score_bound = soft_cap > 0.0 ? std::min(soft_cap * (1.0 + 16.0 * u_), z) : z;
  record(Signal::deviations, outward(2.0 * score_bound * (1.0 + 2.0 * u_) + eta_));  // z − max z in softmax
  if (!(soft_cap > 0.0)) return {stored_dot, std::numeric_limits<double>::quiet_NaN(), z};
  const double divided = cap_input(z, soft_cap);
  const double capped = outward(std::min(soft_cap, z) * (1.0 + 16.0 * u_) + 4.0 * (soft_cap + 1.0) * eta_);
  return {stored_dot, std::max(z, divided), std::isinf(divided) || std::isnan(z) ? infinity : capped};
}

}  // namespace periscope::theory
