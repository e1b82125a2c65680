#include "tests/emulated/ops.h"

#include <cmath>
#include <numbers>

#include "sim/core/norm_formula.h"

namespace periscope::emulated {

void Ops::linear(const double* x, const double* w, double* y, Index rows, Index in, Index out) {
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < out; ++j) {
      y[i * out + j] = stored_(sums_.products(x + i * in, 1, w + j * in, 1, in, peak(Signal::sums)));
      raise(peak(Signal::products), y[i * out + j]);
    }
  }
}

void Ops::norm(NormKind kind, const double* x, const double* gain, const double* bias, double eps, double* y, Index n) {
  const Rounding& r = accumulated_;
  const auto count = static_cast<double>(n);
  const NormFormula formula = formula_of(kind);
  double mean = 0.0;
  if (formula.subtracts_mean) mean = r(sums_.terms(x, n, peak(Signal::sums)) / r(count));
  work_.assign(x, x + n);
  for (double& centred : work_) {
    if (formula.subtracts_mean) {
      centred = r(centred - mean);
      raise(peak(Signal::deviations), centred);
    }
    raise(peak(Signal::squares), r(centred * centred));
  }
  const double square = sums_.products(work_.data(), 1, work_.data(), 1, n, peak(Signal::squares));
  const double rms = r(std::sqrt(r(r(square / r(formula.count(count))) + r(eps))));
  raise(peak(Signal::reciprocals), r(1.0 / rms));
  for (Index i = 0; i < n; ++i) {
    y[i] =
        affine(step(divided(work_[static_cast<std::size_t>(i)], rms)), gain[i], bias == nullptr ? nullptr : bias + i);
  }
}

double Ops::affine(double x, double gain, const double* bias) {
  raise(peak(Signal::normalised), x);
  double y = step(gain * x);
  raise(peak(Signal::normalised), y);
  if (bias != nullptr) y = step(y + *bias);
  return stored_(y);
}

void Ops::pointwise_norm(NormKind kind, const double* x, const double* gain, const double* bias, double alpha,
                         double* y, Index n) {
  const NormFormula::Phi phi = formula_of(kind).phi;
  for (Index i = 0; i < n; ++i) {
    double value = x[i];
    if (phi != NormFormula::Phi::none) {
      value = step(alpha * value);
      raise(peak(Signal::normalised), value);
      value = step(phi_of(phi, value));
    }
    y[i] = affine(value, gain[i], bias == nullptr ? nullptr : bias + i);
  }
}

void Ops::rope(const double* x, double* y, Index head_dim, Index position, std::span<const double> frequencies) const {
  const Index half = head_dim / 2;
  for (Index i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * frequencies[static_cast<std::size_t>(i)];
    const double cosine = stored_(std::cos(angle));
    const double sine = stored_(std::sin(angle));
    y[i] = stored_(stored_(x[i] * cosine) - stored_(x[i + half] * sine));
    y[i + half] = stored_(stored_(x[i + half] * cosine) + stored_(x[i] * sine));
  }
}

double Ops::soft_cap(double cap, double z, double& inner) const {
  const double c = scalar(cap);
  const double inside = stored_(z / c);
  raise(inner, inside);
  const double bent = stored_(std::tanh(inside));
  raise(inner, bent);
  return stored_(bent * c);
}

void Ops::softmax(std::span<double> scores) {
  const Rounding& r = accumulated_;
  // As in common libraries, NaN becomes the maximum and makes all weights NaN.
  double largest = scores.front();
  for (const double z : scores) largest = z > largest || std::isnan(z) ? z : largest;
  for (double& z : scores) {
    z = r(z - largest);
    raise(peak(Signal::deviations), z);
    z = r(std::exp(z));
  }
  const double total = sums_.terms(scores.data(), static_cast<Index>(scores.size()), peak(Signal::denominators));
  for (double& w : scores) w = stored_(divided(w, total));
}

void Ops::attention(const double* q, const double* k, const double* v, double* y, double* scores, Index rows,
                    Index key_rows, const AttentionShape& shape, HeadPeaks& peaks) {
  const Index tokens = rows / shape.sequences;
  const Index keys = key_rows / shape.sequences;
  const Index e = shape.head_dim;
  const Index q_stride = shape.heads * e;
  const Index kv_stride = shape.kv_heads * e;
  for (Index row = 0; row < rows; ++row) {
    const Index t = row % tokens;
    const Index sequence = row / tokens * keys;  // row of the first key
    const Index first = shape.first_seen(t);
    const Index seen = shape.end_seen(t, keys) - first;
    weights_.resize(static_cast<std::size_t>(seen));
    for (Index head = 0; head < shape.heads; ++head) {
      const auto h = static_cast<std::size_t>(head);
      const Index kv_column = head / (shape.heads / shape.kv_heads) * e;
      const double* query = q + row * q_stride + head * e;
      if (emulation_.chains) {
        scaled_query_.assign(query, query + e);
        for (double& x : scaled_query_) x = times(shape.scale(), x);
        query = scaled_query_.data();
      }
      double& largest = scores[row * shape.heads + head];
      largest = 0.0;
      for (Index s = 0; s < seen; ++s) {
        const double* key = k + (sequence + first + s) * kv_stride + kv_column;
        double z = stored_(sums_.products(query, 1, key, 1, e, peak(Signal::sums)));
        if (!emulation_.chains) {
          raise(peaks.dots[h], z);
          z = times(shape.scale(), z);
        }
        if (shape.scores.soft_cap > 0.0) {
          raise(peaks.cap_inputs[h], z);
          z = soft_cap(shape.scores.soft_cap, z, peaks.cap_inputs[h]);
        }
        if (std::isnan(z) || std::abs(z) > largest) largest = std::abs(z);  // NaN propagates
        weights_[static_cast<std::size_t>(s)] = z;
      }
      softmax(weights_);
      for (Index i = 0; i < e; ++i) {
        const Index column = head * e + i;
        const double* value = v + (sequence + first) * kv_stride + kv_column + i;
        y[row * q_stride + column] =
            stored_(sums_.products(weights_.data(), 1, value, kv_stride, seen, peak(Signal::sums)));
      }
    }
  }
}

double Ops::activation(Activation kind, double x) const {
  const Rounding& r = emulation_.chains && kind == Activation::gelu_tanh ? inside_stored_ : inside_;
  switch (kind) {
    case Activation::relu: return x < 0.0 ? 0.0 : x;  // NaN propagates
    case Activation::gelu: {
      const double inside = r(std::erf(r(x * r(std::numbers::sqrt2 / 2.0))));
      return stored_(r(r(0.5 * x) * r(1.0 + inside)));
    }
    case Activation::silu: return stored_(r(x / r(1.0 + r(std::exp(-x)))));
    case Activation::sigmoid: return stored_(r(1.0 / r(1.0 + r(std::exp(-x)))));
    case Activation::gelu_tanh: {
      const double cube = r(r(x * x) * x);
      const double inside = r(r(std::sqrt(2.0 / std::numbers::pi)) * r(x + r(r(0.044715) * cube)));
      return stored_(r(r(0.5 * x) * r(1.0 + r(std::tanh(inside)))));
    }
  }
  return 0.0;
}

}  // namespace periscope::emulated
