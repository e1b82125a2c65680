#include <algorithm>
#include <cmath>

#include "sim/reference/ops.h"

namespace periscope {
namespace {

using Index = Tensor::Index;

/// One part of n features; bias may be null.
void norm_part(NormKind kind, const double* x, const double* gain, const double* bias, double eps, double* y, Index n) {
  double mean = 0.0;
  if (kind == NormKind::layer) {
    for (Index i = 0; i < n; ++i) mean += x[i];
    mean /= static_cast<double>(n);
  }
  double square = 0.0;
  for (Index i = 0; i < n; ++i) square += (x[i] - mean) * (x[i] - mean);
  const double rms = std::sqrt(square / static_cast<double>(n) + eps);
  for (Index i = 0; i < n; ++i) {
    y[i] = rms == 0.0 ? 0.0 : gain[i] * (x[i] - mean) / rms;
    if (bias != nullptr) y[i] += bias[i];
  }
}

/// One part of n features: writes dx, adds to dgain and dbias.
void norm_part_backward(NormKind kind, const double* x, const double* gain, const double* dy, double eps, double* dx,
                        double* dgain, double* dbias, Index n) {
  const auto count = static_cast<double>(n);
  double mean = 0.0;
  if (kind == NormKind::layer) {
    for (Index i = 0; i < n; ++i) mean += x[i] / count;
  }
  double square = 0.0;
  for (Index i = 0; i < n; ++i) square += (x[i] - mean) * (x[i] - mean) / count;
  const double rms = std::sqrt(square + eps);
  double mean_g = 0.0;
  double mean_gx = 0.0;
  for (Index i = 0; i < n; ++i) {
    const double normalised = rms == 0.0 ? 0.0 : (x[i] - mean) / rms;
    const double g = gain[i] * dy[i];
    mean_g += g / count;
    mean_gx += g * normalised / count;
    dgain[i] += dy[i] * normalised;
    dbias[i] += dy[i];
  }
  if (kind == NormKind::rms) mean_g = 0.0;
  for (Index i = 0; i < n; ++i) {
    dx[i] = rms == 0.0 ? 0.0 : (gain[i] * dy[i] - mean_g - (x[i] - mean) / rms * mean_gx) / rms;
  }
}

}  // namespace

void ReferenceBackend::do_norm(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& bias, double eps,
                               Tensor& y) const {
  const double* shift = bias.empty() ? nullptr : elements<double>(bias);
  for (Index part = 0; part < x.size(); part += gain.cols()) {
    norm_part(kind, elements<double>(x) + part, elements<double>(gain), shift, eps, elements<double>(y) + part,
              gain.cols());
  }
}

void ReferenceBackend::do_norm_backward(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& dy,
                                        double eps, NormGradient& g) const {
  std::fill_n(elements<double>(g.dgain), gain.size(), 0.0);
  std::fill_n(elements<double>(g.dbias), gain.size(), 0.0);
  for (Index part = 0; part < x.size(); part += gain.cols()) {
    norm_part_backward(kind, elements<double>(x) + part, elements<double>(gain), elements<double>(dy) + part, eps,
                       elements<double>(g.dx) + part, elements<double>(g.dgain), elements<double>(g.dbias),
                       gain.cols());
  }
}

}  // namespace periscope
