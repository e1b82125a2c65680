#include <cmath>
#include <vector>

#include "sim/cpu/chunks.h"
#include "sim/cpu/eigen_maps.h"
#include "sim/cpu/kernels.h"

namespace periscope::cpu {
namespace {

/// A part's mean (0 for RMSNorm) and 1/rms, eps included (0 for a part that is all zero), in double.
struct PartMoments {
  double mean;
  double inverse;
};

template <class T>
PartMoments moments_of(NormKind kind, const ConstRow<T>& part, double eps) {
  const double mean = kind == NormKind::layer ? part.template cast<double>().mean() : 0.0;
  const double square = (part.template cast<double>() - mean).square().mean();
  const double rms = std::sqrt(square + eps);
  return {mean, rms == 0.0 ? 0.0 : 1.0 / rms};
}

}  // namespace

template <class T>
void norm(NormKind kind, const T* x, const T* gain, const T* bias, double eps, T* y, Index parts, Index n) {
  const ConstRow<T> scale(gain, n);
#pragma omp parallel for schedule(static) if (parts * n > worth_threads)
  for (Index part = 0; part < parts; ++part) {
    const ConstRow<T> in(x + part * n, n);
    const PartMoments m = moments_of(kind, in, eps);
    Row<T> out(y + part * n, n);
    out = scale * ((in.template cast<double>() - m.mean) * m.inverse).template cast<T>();
    if (bias != nullptr) out += ConstRow<T>(bias, n);
  }
}

template <class T>
void norm_backward(NormKind kind, const T* x, const T* gain, const T* dy, double eps, T* dx, T* dgain, T* dbias,
                   Index parts, Index n) {
  const ConstRow<T> scale(gain, n);
  std::vector<PartMoments> moments(static_cast<std::size_t>(parts));
#pragma omp parallel for schedule(static) if (parts * n > worth_threads)
  for (Index part = 0; part < parts; ++part) {
    const ConstRow<T> in(x + part * n, n);
    const PartMoments m = moments[static_cast<std::size_t>(part)] = moments_of(kind, in, eps);
    const Eigen::ArrayXd normalised = (in.template cast<double>() - m.mean).transpose() * m.inverse;
    const Eigen::ArrayXd g =
        (scale.template cast<double>() * ConstRow<T>(dy + part * n, n).template cast<double>()).transpose();
    const double mean_g = kind == NormKind::layer ? g.mean() : 0.0;
    const double mean_gx = (g * normalised).mean();
    Row<T>(dx + part * n, n) = ((g - mean_g - normalised * mean_gx) * m.inverse).transpose().template cast<T>();
  }
  constexpr Index columns = 64;
  const auto sum_columns = [&](Index first, Index count) {
    Eigen::ArrayXd gain_sum = Eigen::ArrayXd::Zero(count);
    Eigen::ArrayXd bias_sum = Eigen::ArrayXd::Zero(count);
    for (Index part = 0; part < parts; ++part) {
      const PartMoments m = moments[static_cast<std::size_t>(part)];
      const auto in = ConstRow<T>(x + part * n + first, count).template cast<double>().transpose();
      const auto slope = ConstRow<T>(dy + part * n + first, count).template cast<double>().transpose();
      gain_sum += slope * (in - m.mean) * m.inverse;
      bias_sum += slope;
    }
    Row<T>(dgain + first, count) = gain_sum.transpose().template cast<T>();
    Row<T>(dbias + first, count) = bias_sum.transpose().template cast<T>();
  };
  for_chunks(n, sum_columns, columns);
}

template void norm<double>(NormKind, const double*, const double*, const double*, double, double*, Index, Index);
template void norm<float>(NormKind, const float*, const float*, const float*, double, float*, Index, Index);
template void norm_backward<double>(NormKind, const double*, const double*, const double*, double, double*, double*,
                                    double*, Index, Index);
template void norm_backward<float>(NormKind, const float*, const float*, const float*, double, float*, float*, float*,
                                   Index, Index);

}  // namespace periscope::cpu
