#include <algorithm>
#include <cmath>

#include "sim/core/norm_formula.h"
#include "sim/reference/ops.h"

namespace periscope {
namespace {

using Index = Tensor::Index;

/// Normalises one part of n features; bias may be null.
void norm_part(const NormFormula& formula, const double* x, const double* gain, const double* bias, double eps,
               double* y, Index n) {
  double mean = 0.0;
  if (formula.subtracts_mean) {
    for (Index i = 0; i < n; ++i) mean += x[i];
    mean /= static_cast<double>(n);
  }
  double square = 0.0;
  for (Index i = 0; i < n; ++i) square += (x[i] - mean) * (x[i] - mean);
  const double rms = std::sqrt(square / formula.count(static_cast<double>(n)) + eps);
  for (Index i = 0; i < n; ++i) {
    y[i] = rms == 0.0 ? 0.0 : gain[i] * (x[i] - mean) / rms;
    if (bias != nullptr) y[i] += bias[i];
  }
}

/// Gradient of norm_part: writes dx and adds to dgain and dbias.
void norm_part_backward(const NormFormula& formula, const double* x, const double* gain, const double* dy, double eps,
                        double* dx, double* dgain, double* dbias, Index n) {
  double mean = 0.0;
  if (formula.subtracts_mean) {
    for (Index i = 0; i < n; ++i) mean += x[i] / static_cast<double>(n);
  }
  const double count = formula.count(static_cast<double>(n));
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
  if (!formula.subtracts_mean) mean_g = 0.0;
  for (Index i = 0; i < n; ++i) {
    dx[i] = rms == 0.0 ? 0.0 : (gain[i] * dy[i] - mean_g - (x[i] - mean) / rms * mean_gx) / rms;
  }
}

/// Applies a pointwise norm to one part of n features; bias may be null.
void pointwise_part(NormFormula::Phi phi, const double* x, const double* gain, const double* bias, double alpha,
                    double* y, Index n) {
  for (Index i = 0; i < n; ++i) {
    y[i] = gain[i] * phi_of(phi, alpha * x[i]);
    if (bias != nullptr) y[i] += bias[i];
  }
}

/// Gradient of pointwise_part: writes dx and adds to dgain, dbias and dalpha.
void pointwise_part_backward(NormFormula::Phi phi, const double* x, const double* gain, double alpha, const double* dy,
                             double* dx, double* dgain, double* dbias, double& dalpha, Index n) {
  for (Index i = 0; i < n; ++i) {
    const double slope = phi_slope(phi, alpha * x[i]) * gain[i] * dy[i];
    dx[i] = alpha * slope;
    dalpha += x[i] * slope;
    dgain[i] += dy[i] * phi_of(phi, alpha * x[i]);
    dbias[i] += dy[i];
  }
}

/// Returns α, or 1 for kinds without α.
double alpha_or_1(const Tensor& alpha) { return alpha.empty() ? 1.0 : elements<double>(alpha)[0]; }

}  // namespace

void ReferenceBackend::run(const op::Norm& o) const {
  const NormFormula formula = formula_of(o.kind);
  const double* shift = o.bias.empty() ? nullptr : elements<double>(o.bias);
  for (Index part = 0; part < o.x.size(); part += o.gain.cols()) {
    if (formula.is_pointwise()) {
      pointwise_part(formula.phi, elements<double>(o.x) + part, elements<double>(o.gain), shift, alpha_or_1(o.alpha),
                     elements<double>(o.y) + part, o.gain.cols());
      continue;
    }
    norm_part(formula, elements<double>(o.x) + part, elements<double>(o.gain), shift, o.eps,
              elements<double>(o.y) + part, o.gain.cols());
  }
}

void ReferenceBackend::run(const op::NormBackward& o) const {
  const NormFormula formula = formula_of(o.kind);
  double dalpha = 0.0;
  std::fill_n(elements<double>(o.g.dgain), o.gain.size(), 0.0);
  std::fill_n(elements<double>(o.g.dbias), o.gain.size(), 0.0);
  for (Index part = 0; part < o.x.size(); part += o.gain.cols()) {
    if (formula.is_pointwise()) {
      pointwise_part_backward(formula.phi, elements<double>(o.x) + part, elements<double>(o.gain), alpha_or_1(o.alpha),
                              elements<double>(o.dy) + part, elements<double>(o.g.dx) + part,
                              elements<double>(o.g.dgain), elements<double>(o.g.dbias), dalpha, o.gain.cols());
      continue;
    }
    norm_part_backward(formula, elements<double>(o.x) + part, elements<double>(o.gain), elements<double>(o.dy) + part,
                       o.eps, elements<double>(o.g.dx) + part, elements<double>(o.g.dgain), elements<double>(o.g.dbias),
                       o.gain.cols());
  }
  if (!o.g.dalpha.empty()) elements<double>(o.g.dalpha)[0] = dalpha;
}

}  // namespace periscope
