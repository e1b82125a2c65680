#include <algorithm>
#include <cmath>

#include "sim/cpu/ops.h"
#include "sim/cpu/scratch.h"

namespace periscope {
namespace cpu {
namespace {

/// A part's mean (0 for RMSNorm) and 1/rms, eps included (0 for a part that is all zero), in double.
struct PartMoments {
  double mean;
  double inverse;
};

/// The mean of term(i) over i < n, in double.
template <class Term>
double mean_over(Index n, const Term& term) {
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < n; ++i) sum += term(i);
  return sum / static_cast<double>(n);
}

template <class T>
PartMoments moments_of(NormKind kind, const T* x, Index n, double eps) {
  const double mean = kind == NormKind::layer ? mean_over(n, [&](Index i) { return static_cast<double>(x[i]); }) : 0.0;
  const double square = mean_over(n, [&](Index i) {
    const double centred = static_cast<double>(x[i]) - mean;
    return centred * centred;
  });
  const double rms = std::sqrt(square + eps);
  return {mean, rms == 0.0 ? 0.0 : 1.0 / rms};
}

template <class T>
void norm(NormKind kind, const T* x, const T* gain, const T* bias, double eps, T* y, Index parts, Index n) {
#pragma omp parallel for schedule(static) if (parts * n > worth_threads)
  for (Index part = 0; part < parts; ++part) {
    const T* const in = x + part * n;
    T* const out = y + part * n;
    const PartMoments m = moments_of(kind, in, n, eps);
#pragma omp simd
    for (Index i = 0; i < n; ++i) out[i] = gain[i] * static_cast<T>((static_cast<double>(in[i]) - m.mean) * m.inverse);
    if (bias != nullptr) Row<T>(out, n) += ConstRow<T>(bias, n);
  }
}

/// Parts are taken in groups, whose sums over parts are added up in their order.
constexpr Index group_size = 64;

template <class T>
void norm_backward(NormKind kind, const T* x, const T* gain, const T* dy, double eps, T* dx, T* dgain, T* dbias,
                   Index parts, Index n) {
  const Index groups = (parts + group_size - 1) / group_size;
  const Scratch<double> sums(groups * 2 * n);
#pragma omp parallel for schedule(static) if (parts * n > worth_threads)
  for (Index group = 0; group < groups; ++group) {
    double* const gain_sum = sums.data() + group * 2 * n;
    double* const bias_sum = gain_sum + n;
    std::fill_n(gain_sum, 2 * n, 0.0);
    for (Index part = group * group_size; part < std::min(parts, (group + 1) * group_size); ++part) {
      const T* const in = x + part * n;
      const T* const dout = dy + part * n;
      T* const din = dx + part * n;
      const PartMoments m = moments_of(kind, in, n, eps);
      const auto normalised = [&](Index i) { return (static_cast<double>(in[i]) - m.mean) * m.inverse; };
      const auto g = [&](Index i) { return static_cast<double>(gain[i]) * static_cast<double>(dout[i]); };
      const double mean_g = kind == NormKind::layer ? mean_over(n, g) : 0.0;
      const double mean_gx = mean_over(n, [&](Index i) { return g(i) * normalised(i); });
#pragma omp simd
      for (Index i = 0; i < n; ++i) {
        const double hat = normalised(i);
        gain_sum[i] += static_cast<double>(dout[i]) * hat;
        bias_sum[i] += static_cast<double>(dout[i]);
        din[i] = static_cast<T>((g(i) - mean_g - hat * mean_gx) * m.inverse);
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

// -------------------------------------------------------------------------------------------------

using cpu::with_type_of;

void CpuBackend::do_norm(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& bias, double eps,
                         Tensor& y) const {
  with_type_of(x, [&]<class T>(T) {
    const T* shift = bias.empty() ? nullptr : elements<T>(bias);
    const Index n = gain.cols();
    cpu::norm(kind, elements<T>(x), elements<T>(gain), shift, eps, elements<T>(y), x.rows() * (x.cols() / n), n);
  });
}

void CpuBackend::do_norm_backward(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& dy, double eps,
                                  NormGradient& g) const {
  with_type_of(x, [&]<class T>(T) {
    const Index n = gain.cols();
    cpu::norm_backward(kind, elements<T>(x), elements<T>(gain), elements<T>(dy), eps, elements<T>(g.dx),
                       elements<T>(g.dgain), elements<T>(g.dbias), x.rows() * (x.cols() / n), n);
  });
}

}  // namespace periscope
