#include <cmath>

#include "sim/cuda/columns.h"
#include "sim/cuda/ops.h"
#include "sim/cuda/pointwise_norm.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

/// The subtracted mean of a part (or 0), and 1/s (or 0 if s = 0), where s is the divisor in Backend::norm_backward.
struct PartMoments {
  double mean;
  double inverse;
};

template <class T>
PERISCOPE_HOST_DEVICE PartMoments part_moments(const Block& block, double* shared, const NormFormula& formula,
                                               const In<T>& x, Index n, double eps) {
  const auto count = static_cast<double>(n);
  double mean = 0.0;
  if (formula.subtracts_mean) {
    mean = block.sum(shared, n, [x](Index i) { return static_cast<double>(widen(x[i])); }) / count;
  }
  const double square = block.sum(shared, n, [x, mean](Index i) {
    const double centred = static_cast<double>(widen(x[i])) - mean;
    return centred * centred;
  });
  const double rms = std::sqrt(square / formula.count(count) + eps);
  return {mean, rms == 0.0 ? 0.0 : 1.0 / rms};
}

/// Normalises one part of n features per block; bias may be null.
template <class T>
struct Norm {
  using Shared = SumShared;
  NormFormula formula;
  In<T> x;
  In<T> gain;
  In<T> bias;
  double eps;
  Out<T> y;
  Index n;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index part) const {
    using C = Computed<T>;
    const In<T> in = x + part * n;
    const PartMoments m = part_moments(block, shared.sums, formula, in, n, eps);
    block.threads([&](int t) {
      for (Index i = t; i < n; i += Block::size) {
        const C normalised = static_cast<C>((static_cast<double>(widen(in[i])) - m.mean) * m.inverse);
        const C scaled = widen(gain[i]) * normalised;
        y[part * n + i] = narrow<T>(bias ? scaled + widen(bias[i]) : scaled);
      }
    });
  }
};

template <class T>
struct NormBackward {
  using Shared = SumShared;
  NormFormula formula;
  In<T> x;
  In<T> gain;
  In<T> dy;
  double eps;
  Out<T> dx;
  Out<PartMoments> moments;
  Index n;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index part) const {
    const In<T> in = x + part * n;
    const In<T> slope = dy + part * n;
    const PartMoments m = part_moments(block, shared.sums, formula, in, n, eps);
    const auto normalised = [&](Index i) { return (static_cast<double>(widen(in[i])) - m.mean) * m.inverse; };
    const auto g = [&](Index i) { return static_cast<double>(widen(gain[i])) * static_cast<double>(widen(slope[i])); };
    const auto count = static_cast<double>(n);
    const double mean_g = formula.subtracts_mean ? block.sum(shared.sums, n, g) / count : 0.0;
    const double mean_gx =
        block.sum(shared.sums, n, [&](Index i) { return g(i) * normalised(i); }) / formula.count(count);
    block.threads([&](int t) {
      if (t == 0) moments[part] = m;
      for (Index i = t; i < n; i += Block::size) {
        dx[part * n + i] = from_double<T>((g(i) - mean_g - normalised(i) * mean_gx) * m.inverse);
      }
    });
  }
};

/// dy∘x̂; its sum over parts is dgain.
template <class T>
struct GainTerm {
  In<T> x;
  In<T> dy;
  In<PartMoments> moments;
  Index n;
  PERISCOPE_HOST_DEVICE double operator()(Index part, Index i) const {
    const PartMoments m = moments[part];
    const double normalised = (static_cast<double>(widen(x[part * n + i])) - m.mean) * m.inverse;
    return static_cast<double>(widen(dy[part * n + i])) * normalised;
  }
};

}  // namespace

void CudaBackend::run(const op::Norm& o) const {
  const NormFormula formula = formula_of(o.kind);
  const Index n = o.gain.cols();
  with_type(o.x.dtype(), [&]<class T>(T) {
    const T* shift = o.bias.empty() ? nullptr : data<T>(o.bias);
    const T* factor = o.alpha.empty() ? nullptr : data<T>(o.alpha);
    if (formula.is_pointwise()) {
      for_each(execution_, o.x.size(),
               PointwiseNorm<T>{formula.phi, data<T>(o.x), data<T>(o.gain), shift, factor, data<T>(o.y), n});
    } else {
      for_blocks(execution_, o.x.size() / n,
                 Norm<T>{formula, data<T>(o.x), data<T>(o.gain), shift, o.eps, data<T>(o.y), n});
    }
  });
}

void CudaBackend::run(const op::NormBackward& o) const {
  const NormFormula formula = formula_of(o.kind);
  const Index n = o.gain.cols();
  const Index parts = o.x.size() / n;
  if (formula.is_pointwise()) {
    with_type(o.x.dtype(), [&]<class T>(T) {
      const T* factor = o.alpha.empty() ? nullptr : data<T>(o.alpha);
      const PointwiseTerms<T> terms{formula.phi, data<T>(o.x), data<T>(o.gain), factor, data<T>(o.dy), n};
      for_each(execution_, o.x.size(), PointwiseNormBackward<T>{terms, data<T>(o.g.dx)});
      sum_columns(execution_, parts, n, PointwiseGainTerm<T>{terms}, data<T>(o.g.dgain));
      sum_columns(execution_, parts, n, ElementInDouble<T>{data<T>(o.dy), n}, data<T>(o.g.dbias));
      if (!o.alpha.empty()) alpha_gradient(execution_, terms, parts, data<T>(o.g.dalpha));
    });
    return;
  }
  const std::shared_ptr<PartMoments> moments = execution_.take_array<PartMoments>(parts);
  with_type(o.x.dtype(), [&]<class T>(T) {
    for_blocks(execution_, parts,
               NormBackward<T>{formula, data<T>(o.x), data<T>(o.gain), data<T>(o.dy), o.eps, data<T>(o.g.dx),
                               moments.get(), n});
    sum_columns(execution_, parts, n, GainTerm<T>{data<T>(o.x), data<T>(o.dy), moments.get(), n}, data<T>(o.g.dgain));
    sum_columns(execution_, parts, n, ElementInDouble<T>{data<T>(o.dy), n}, data<T>(o.g.dbias));
  });
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
