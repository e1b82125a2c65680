#pragma once

#include <algorithm>
#include <cmath>

#include "sim/core/norm_formula.h"
#include "sim/cpu/ops.h"
#include "sim/cpu/scratch.h"

/// Pointwise norms: every entry of the result depends on one entry of the input (formulas: Backend::norm).
namespace periscope::cpu {

/// Number of entries processed at a time, in a stack buffer. The buffer is aligned because Eigen uses a different
/// formula before the first aligned address.
inline constexpr Index chunk_size = 1024;

/// Replaces u by φ(u).
template <class T>
void apply_phi(NormFormula::Phi kind, Row<T>& u) {
  if (kind == NormFormula::Phi::tanh) u = u.tanh();
  if (kind == NormFormula::Phi::erf) u = u.unaryExpr([](T v) { return std::erf(v); });
}

/// Replaces u by φ'(u), given phi = φ(u).
template <class T>
void apply_phi_slope(NormFormula::Phi kind, const Row<T>& phi, Row<T>& u) {
  if (kind == NormFormula::Phi::tanh) u = (T(1) - phi) * (T(1) + phi);
  if (kind == NormFormula::Phi::erf) u = T(2) * std::numbers::inv_sqrtpi_v<T> * (-u.square()).exp();
  if (kind == NormFormula::Phi::none) u.setOnes();
}

template <class T>
void pointwise_norm(NormFormula::Phi kind, const T* x, const T* gain, const T* bias, T alpha, T* y, Index parts,
                    Index n) {
#pragma omp parallel for schedule(static) if (parts * n > min_parallel_size)
  for (Index part = 0; part < parts; ++part) {
    alignas(64) T buffer[chunk_size];
    for (Index i = 0; i < n; i += chunk_size) {
      const Index count = std::min(chunk_size, n - i);
      Row<T> u(buffer, count);
      u = alpha * ConstRow<T>(x + part * n + i, count);
      apply_phi(kind, u);
      Row<T> out(y + part * n + i, count);
      out = ConstRow<T>(gain + i, count) * u;
      if (bias != nullptr) out += ConstRow<T>(bias + i, count);
    }
  }
}

/// Output buffers for the gradients of a pointwise norm.
template <class T>
struct PointwiseGradient {
  T *dx, *dgain, *dbias;
  T* dalpha;  ///< null for kinds without α
};

/// Sums over parts are accumulated per group of parts, then over groups in order.
template <class T>
void pointwise_norm_backward(NormFormula::Phi kind, const T* x, const T* gain, T alpha, const T* dy,
                             const PointwiseGradient<T>& to, Index parts, Index n) {
  constexpr Index group_size = 64;
  const Index groups = (parts + group_size - 1) / group_size;
  const Index stride = 2 * n + 1;  // dgain, dbias and dalpha of a group
  const Scratch<double> sums(groups * stride);
#pragma omp parallel for schedule(static) if (parts * n > min_parallel_size)
  for (Index group = 0; group < groups; ++group) {
    double* const gain_sum = sums.data() + group * stride;
    double* const bias_sum = gain_sum + n;
    double& alpha_sum = bias_sum[n];
    std::fill_n(gain_sum, stride, 0.0);
    alignas(64) T phi_buffer[chunk_size];
    alignas(64) T slope_buffer[chunk_size];
    for (Index part = group * group_size; part < std::min(parts, (group + 1) * group_size); ++part) {
      for (Index i = 0; i < n; i += chunk_size) {
        const Index count = std::min(chunk_size, n - i);
        const T* const in = x + part * n + i;
        const T* const dout = dy + part * n + i;
        T* const din = to.dx + part * n + i;
        Row<T> u(slope_buffer, count);
        Row<T> phi(phi_buffer, count);
        u = alpha * ConstRow<T>(in, count);
        phi = u;
        apply_phi(kind, phi);
        apply_phi_slope(kind, phi, u);
        double products = 0.0;
#pragma omp simd reduction(+ : products)
        for (Index j = 0; j < count; ++j) {
          const double d = static_cast<double>(dout[j]);
          const double slope = static_cast<double>(gain[i + j]) * d * static_cast<double>(slope_buffer[j]);
          products += slope * static_cast<double>(in[j]);
          gain_sum[i + j] += d * static_cast<double>(phi_buffer[j]);
          bias_sum[i + j] += d;
          din[j] = static_cast<T>(static_cast<double>(alpha) * slope);
        }
        alpha_sum += products;
      }
    }
  }
  for (Index group = 1; group < groups; ++group) {
    for (Index i = 0; i < stride; ++i) sums.data()[i] += sums.data()[group * stride + i];
  }
  for (Index i = 0; i < n; ++i) {
    to.dgain[i] = static_cast<T>(sums.data()[i]);
    to.dbias[i] = static_cast<T>(sums.data()[n + i]);
  }
  if (to.dalpha != nullptr) *to.dalpha = static_cast<T>(sums.data()[2 * n]);
}

}  // namespace periscope::cpu
