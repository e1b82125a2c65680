#include <algorithm>
#include <cmath>

#include "sim/cpu/ops.h"
#include "sim/cpu/pointwise_norm.h"
#include "sim/cpu/scratch.h"

namespace periscope {
namespace cpu {
namespace {

/// The mean to subtract from a part (0 if none), and 1/s (0 if s = 0), with the divisor s of Backend::norm_backward.
struct PartMoments {
  double mean;
  double inverse;
};

// Sums are plain loops without lambdas: gcc 12 vectorises some loops over captured arrays with slow gathers.

template <class T>
double mean_of(const T* x, Index n) {
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  return sum / static_cast<double>(n);
}

template <class T>
PartMoments moments_of(const NormFormula& formula, const T* x, Index n, double eps) {
  const double mean = formula.subtracts_mean ? mean_of(x, n) : 0.0;
  double squares = 0.0;
#pragma omp simd reduction(+ : squares)
  for (Index i = 0; i < n; ++i) {
    const double centred = static_cast<double>(x[i]) - mean;
    squares += centred * centred;
  }
  const double rms = std::sqrt(squares / formula.count(static_cast<double>(n)) + eps);
  return {mean, rms == 0.0 ? 0.0 : 1.0 / rms};
}

template <class T>
void norm(const NormFormula& formula, const T* x, const T* gain, const T* bias, double eps, T* y, Index parts,
          Index n) {
#pragma omp parallel for schedule(static) if (parts * n > min_parallel_size)
  for (Index part = 0; part < parts; ++part) {
    const T* const in = x + part * n;
    T* const out = y + part * n;
    const PartMoments m = moments_of(formula, in, n, eps);
#pragma omp simd
    for (Index i = 0; i < n; ++i) out[i] = gain[i] * static_cast<T>((static_cast<double>(in[i]) - m.mean) * m.inverse);
    if (bias != nullptr) Row<T>(out, n) += ConstRow<T>(bias, n);
  }
}

/// Terms of the gradients of a part, per entry: the normalised x and g = gain·dy.
struct PartTerms {
  double *hat, *g;
};

/// Writes the terms and returns the sum of g·hat.
template <class T>
double part_terms(const T* x, const T* gain, const T* dy, const PartMoments& m, const PartTerms& to, Index n) {
  const double mean = m.mean;
  const double inverse = m.inverse;
  double* const hat = to.hat;
  double* const g = to.g;
  double products = 0.0;
#pragma omp simd reduction(+ : products)
  for (Index i = 0; i < n; ++i) {
    hat[i] = (static_cast<double>(x[i]) - mean) * inverse;
    g[i] = static_cast<double>(gain[i]) * static_cast<double>(dy[i]);
    products += g[i] * hat[i];
  }
  return products;
}

/// Parts per group. Sums over parts are accumulated per group, then over groups in order.
constexpr Index group_size = 64;

template <class T>
void norm_backward(const NormFormula& formula, const T* x, const T* gain, const T* dy, double eps, T* dx, T* dgain,
                   T* dbias, Index parts, Index n) {
  const Index groups = (parts + group_size - 1) / group_size;
  const Scratch<double> sums(groups * 2 * n), terms(groups * 2 * n);
#pragma omp parallel for schedule(static) if (parts * n > min_parallel_size)
  for (Index group = 0; group < groups; ++group) {
    double* const hat = terms.data() + group * 2 * n;
    double* const g = hat + n;
    double* const gain_sum = sums.data() + group * 2 * n;
    double* const bias_sum = gain_sum + n;
    std::fill_n(gain_sum, 2 * n, 0.0);
    for (Index part = group * group_size; part < std::min(parts, (group + 1) * group_size); ++part) {
      const T* const dout = dy + part * n;
      T* const din = dx + part * n;
      const PartMoments m = moments_of(formula, x + part * n, n, eps);
      const double inverse = m.inverse;
      const double mean_gx =
          part_terms(x + part * n, gain, dout, m, {hat, g}, n) / formula.count(static_cast<double>(n));
      const double mean_g = formula.subtracts_mean ? mean_of(g, n) : 0.0;
#pragma omp simd
      for (Index i = 0; i < n; ++i) {
        gain_sum[i] += static_cast<double>(dout[i]) * hat[i];
        bias_sum[i] += static_cast<double>(dout[i]);
        din[i] = static_cast<T>((g[i] - mean_g - hat[i] * mean_gx) * inverse);
      }
    }
  }
  for (Index group = 1; group < groups; ++group) {
    for (Index i = 0; i < 2 * n; ++i) sums.data()[i] += sums.data()[group * 2 * n + i];
  }
  for (Index i = 0; i < n; ++i) {
    dgain[i] = static_cast<T>(sums.data()[i]);
    dbias[i] = static_cast<T>(sums.data()[n + i]);
  }
}

}  // namespace
}  // namespace cpu

using cpu::with_type_of;

void CpuBackend::run(const op::Norm& o) const {
  const NormFormula formula = formula_of(o.kind);
  with_type_of(o.x, [&]<class T>(T) {
    const T* shift = o.bias.empty() ? nullptr : elements<T>(o.bias);
    const Index n = o.gain.cols();
    const Index parts = o.x.rows() * (o.x.cols() / n);
    if (formula.is_pointwise()) {
      const T factor = o.alpha.empty() ? T(1) : elements<T>(o.alpha)[0];
      cpu::pointwise_norm(formula.phi, elements<T>(o.x), elements<T>(o.gain), shift, factor, elements<T>(o.y), parts,
                          n);
    } else {
      cpu::norm(formula, elements<T>(o.x), elements<T>(o.gain), shift, o.eps, elements<T>(o.y), parts, n);
    }
  });
}

void CpuBackend::run(const op::NormBackward& o) const {
  const NormFormula formula = formula_of(o.kind);
  with_type_of(o.x, [&]<class T>(T) {
    const Index n = o.gain.cols();
    const Index parts = o.x.rows() * (o.x.cols() / n);
    if (formula.is_pointwise()) {
      const T factor = o.alpha.empty() ? T(1) : elements<T>(o.alpha)[0];
      const cpu::PointwiseGradient<T> to{elements<T>(o.g.dx), elements<T>(o.g.dgain), elements<T>(o.g.dbias),
                                         o.alpha.empty() ? nullptr : elements<T>(o.g.dalpha)};
      cpu::pointwise_norm_backward(formula.phi, elements<T>(o.x), elements<T>(o.gain), factor, elements<T>(o.dy), to,
                                   parts, n);
    } else {
      cpu::norm_backward(formula, elements<T>(o.x), elements<T>(o.gain), elements<T>(o.dy), o.eps, elements<T>(o.g.dx),
                         elements<T>(o.g.dgain), elements<T>(o.g.dbias), parts, n);
    }
  });
}

}  // namespace periscope
