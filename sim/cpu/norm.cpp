#include <cmath>
#include <vector>

#include "sim/cpu/ops.h"
#include "sim/spec/first_exception.h"

namespace periscope {
namespace cpu {
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
  FirstException failure;
#pragma omp parallel for schedule(static) if (parts * n > worth_threads)
  for (Index part = 0; part < parts; ++part) {
    failure.run([&] {
      const ConstRow<T> in(x + part * n, n);
      const PartMoments m = moments[static_cast<std::size_t>(part)] = moments_of(kind, in, eps);
      const Eigen::ArrayXd normalised = (in.template cast<double>() - m.mean).transpose() * m.inverse;
      const Eigen::ArrayXd g =
          (scale.template cast<double>() * ConstRow<T>(dy + part * n, n).template cast<double>()).transpose();
      const double mean_g = kind == NormKind::layer ? g.mean() : 0.0;
      const double mean_gx = (g * normalised).mean();
      Row<T>(dx + part * n, n) = ((g - mean_g - normalised * mean_gx) * m.inverse).transpose().template cast<T>();
    });
  }
  failure.rethrow();
  constexpr Index columns = 64;
  const auto sum_columns = [&](Index first, Index count) {
    Eigen::ArrayXd gain_sum = Eigen::ArrayXd::Zero(count);
    Eigen::ArrayXd bias_sum = Eigen::ArrayXd::Zero(count);
    for (Index part = 0; part < parts; ++part) {
      const PartMoments m = moments[static_cast<std::size_t>(part)];
      const auto in = ConstRow<T>(x + part * n + first, count).template cast<double>().transpose();
      const auto dout = ConstRow<T>(dy + part * n + first, count).template cast<double>().transpose();
      gain_sum += dout * (in - m.mean) * m.inverse;
      bias_sum += dout;
    }
    Row<T>(dgain + first, count) = gain_sum.transpose().template cast<T>();
    Row<T>(dbias + first, count) = bias_sum.transpose().template cast<T>();
  };
  for_chunks(n, sum_columns, columns);
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
