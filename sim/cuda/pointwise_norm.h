#pragma once

#include "sim/core/norm_formula.h"
#include "sim/cuda/columns.h"

/// Pointwise norms: every entry of the result depends on one entry of the input (formulas: Backend::norm).
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// Computes entry i of a signal whose parts have n features; a null alpha means α = 1.
template <class T>
struct PointwiseNorm {
  NormFormula::Phi phi;
  In<T> x;
  In<T> gain;
  In<T> bias;
  In<T> alpha;
  Out<T> y;
  Index n;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const {
    using C = Computed<T>;
    const C factor = alpha ? widen(alpha[0]) : C(1);
    const C scaled = widen(gain[i % n]) * phi_of<C>(phi, factor * widen(x[i]));
    y[i] = narrow<T>(bias ? scaled + widen(bias[i % n]) : scaled);
  }
};

/// Terms of the gradients in double: g·φ'(αx) with g = gain·dy, and dy·φ(αx).
template <class T>
struct PointwiseTerms {
  NormFormula::Phi phi;
  In<T> x;
  In<T> gain;
  In<T> alpha;
  In<T> dy;
  Index n;

  PERISCOPE_HOST_DEVICE double inner(Index i) const {
    const double factor = alpha ? static_cast<double>(widen(alpha[0])) : 1.0;
    return factor * static_cast<double>(widen(x[i]));
  }
  PERISCOPE_HOST_DEVICE double slope(Index i) const {
    const double g = static_cast<double>(widen(gain[i % n])) * static_cast<double>(widen(dy[i]));
    return g * phi_slope(phi, inner(i));
  }
  PERISCOPE_HOST_DEVICE double phi_times_dy(Index i) const {
    return static_cast<double>(widen(dy[i])) * phi_of(phi, inner(i));
  }
};

template <class T>
struct PointwiseNormBackward {
  PointwiseTerms<T> terms;
  Out<T> dx;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const {
    const double factor = terms.alpha ? static_cast<double>(widen(terms.alpha[0])) : 1.0;
    dx[i] = from_double<T>(factor * terms.slope(i));
  }
};

/// dy∘φ(αx); its sum over parts is dgain.
template <class T>
struct PointwiseGainTerm {
  PointwiseTerms<T> terms;
  PERISCOPE_HOST_DEVICE double operator()(Index part, Index i) const { return terms.phi_times_dy(part * terms.n + i); }
};

/// x∘g∘φ'(αx); its sum over all entries is dalpha.
template <class T>
struct AlphaTerm {
  PointwiseTerms<T> terms;
  PERISCOPE_HOST_DEVICE double operator()(Index part, Index i) const {
    const Index at = part * terms.n + i;
    return static_cast<double>(widen(terms.x[at])) * terms.slope(at);
  }
};

/// Computes dalpha: sums over parts, then over features. The order depends only on the shape.
template <class T>
void alpha_gradient(const Execution& execution, const PointwiseTerms<T>& terms, Index parts, T* dalpha) {
  const std::shared_ptr<double> feature_sums = execution.take_array<double>(terms.n);
  sum_columns(execution, parts, terms.n, AlphaTerm<T>{terms}, feature_sums.get());
  sum_columns(execution, terms.n, 1, ElementInDouble<double>{feature_sums.get(), 1}, dalpha);
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
