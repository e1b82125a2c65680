#pragma once

#include "sim/core/norm_formula.h"
#include "sim/cuda/columns.h"

/// Norms of which every entry is a function of one entry (formulas: Backend::norm).
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// Entry i of a signal whose parts have n features; alpha null: 1.
template <class T>
struct PointwiseNorm {
  NormFormula::Phi phi;
  const T* x;
  const T* gain;
  const T* bias;
  const T* alpha;
  T* y;
  Index n;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const {
    using C = Computed<T>;
    const C factor = alpha == nullptr ? C(1) : widen(alpha[0]);
    const C scaled = widen(gain[i % n]) * phi_of<C>(phi, factor * widen(x[i]));
    y[i] = narrow<T>(bias == nullptr ? scaled : scaled + widen(bias[i % n]));
  }
};

/// The gradients' terms in double: g·φ' of an entry with g = gain·dy, and dy·φ.
template <class T>
struct PointwiseTerms {
  NormFormula::Phi phi;
  const T* x;
  const T* gain;
  const T* alpha;
  const T* dy;
  Index n;

  PERISCOPE_HOST_DEVICE double inner(Index i) const {
    const double factor = alpha == nullptr ? 1.0 : static_cast<double>(widen(alpha[0]));
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
  T* dx;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const {
    const double factor = terms.alpha == nullptr ? 1.0 : static_cast<double>(widen(terms.alpha[0]));
    dx[i] = from_double<T>(factor * terms.slope(i));
  }
};

/// dy∘φ(αx), whose sums over the parts are dgain.
template <class T>
struct PointwiseGainTerm {
  PointwiseTerms<T> terms;
  PERISCOPE_HOST_DEVICE double operator()(Index part, Index i) const { return terms.phi_times_dy(part * terms.n + i); }
};

/// x∘g∘φ'(αx), of which dalpha is the sum over everything.
template <class T>
struct AlphaTerm {
  PointwiseTerms<T> terms;
  PERISCOPE_HOST_DEVICE double operator()(Index part, Index i) const {
    const Index at = part * terms.n + i;
    return static_cast<double>(widen(terms.x[at])) * terms.slope(at);
  }
};

/// The sums over features of the sums over parts, in an order that depends on their numbers alone.
template <class T>
void alpha_gradient(const Execution& execution, const PointwiseTerms<T>& terms, Index parts, T* dalpha) {
  const std::shared_ptr<double> of_features = execution.take_array<double>(terms.n);
  reduce_columns(execution, parts, terms.n, AlphaTerm<T>{terms}, Add{}, of_features.get());
  reduce_columns(execution, terms.n, 1, ElementInDouble<double>{of_features.get(), 1}, Add{}, dalpha);
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
