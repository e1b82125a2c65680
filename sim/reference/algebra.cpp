#include <algorithm>

#include "sim/reference/ops.h"

namespace periscope {

void ReferenceBackend::do_linear(const Tensor& x, const Tensor& w, Tensor& y) const {
  const double* a = elements<double>(x);
  const double* b = elements<double>(w);
  double* out = elements<double>(y);
  for (Index i = 0; i < y.rows(); ++i) {
    for (Index j = 0; j < y.cols(); ++j) {
      double sum = 0.0;
      for (Index k = 0; k < x.cols(); ++k) sum += a[i * x.cols() + k] * b[j * x.cols() + k];
      out[i * y.cols() + j] = sum;
    }
  }
}

void ReferenceBackend::do_linear_backward_input(const Tensor& dy, const Tensor& w, Tensor& dx) const {
  const double* a = elements<double>(dy);
  const double* b = elements<double>(w);
  double* out = elements<double>(dx);
  for (Index i = 0; i < dx.rows(); ++i) {
    for (Index k = 0; k < dx.cols(); ++k) {
      double sum = 0.0;
      for (Index j = 0; j < dy.cols(); ++j) sum += a[i * dy.cols() + j] * b[j * dx.cols() + k];
      out[i * dx.cols() + k] = sum;
    }
  }
}

void ReferenceBackend::do_linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dw) const {
  const double* a = elements<double>(dy);
  const double* b = elements<double>(x);
  double* out = elements<double>(dw);
  for (Index j = 0; j < dw.rows(); ++j) {
    for (Index k = 0; k < dw.cols(); ++k) {
      double sum = 0.0;
      for (Index i = 0; i < x.rows(); ++i) sum += a[i * dw.rows() + j] * b[i * dw.cols() + k];
      out[j * dw.cols() + k] = sum;
    }
  }
}

void ReferenceBackend::do_axpby(double a, const Tensor& x, double b, const Tensor& y, Tensor& z) const {
  const double* u = elements<double>(x);
  const double* v = elements<double>(y);
  double* out = elements<double>(z);
  for (Index i = 0; i < z.size(); ++i) out[i] = a * u[i] + b * v[i];
}

void ReferenceBackend::do_scale(double a, const Tensor& x, Tensor& y) const {
  const double* u = elements<double>(x);
  double* out = elements<double>(y);
  for (Index i = 0; i < y.size(); ++i) out[i] = a * u[i];
}

void ReferenceBackend::do_multiply(const Tensor& x, const Tensor& y, Tensor& z) const {
  const double* u = elements<double>(x);
  const double* v = elements<double>(y);
  double* out = elements<double>(z);
  for (Index i = 0; i < z.size(); ++i) out[i] = u[i] * v[i];
}

void ReferenceBackend::do_add_row(const Tensor& x, const Tensor& row, Tensor& y) const {
  const double* u = elements<double>(x);
  const double* v = elements<double>(row);
  double* out = elements<double>(y);
  for (Index i = 0; i < y.size(); ++i) out[i] = u[i] + v[i % y.cols()];
}

void ReferenceBackend::do_column_sums(const Tensor& x, Tensor& sums) const {
  double* out = elements<double>(sums);
  std::fill_n(out, sums.size(), 0.0);
  for (Index i = 0; i < x.size(); ++i) out[i % x.cols()] += elements<double>(x)[i];
}

void ReferenceBackend::do_gather(const Tensor& table, std::span<const int> ids, Tensor& y) const {
  double* out = elements<double>(y);
  for (const int id : ids) out = std::copy_n(elements<double>(table) + id * y.cols(), y.cols(), out);
}

void ReferenceBackend::do_replace_rows(const Tensor& x, Index first, const Tensor& rows, Tensor& y) const {
  if (!y.same_as(x)) std::copy_n(elements<double>(x), x.size(), elements<double>(y));
  std::copy_n(elements<double>(rows), rows.size(), elements<double>(y) + first * x.cols());
}

void ReferenceBackend::do_scatter_add(const Tensor& dy, std::span<const int> ids, Tensor& sums) const {
  double* out = elements<double>(sums);
  std::fill_n(out, sums.size(), 0.0);
  for (Index i = 0; i < dy.size(); ++i) {
    out[ids[static_cast<std::size_t>(i / dy.cols())] * dy.cols() + i % dy.cols()] += elements<double>(dy)[i];
  }
}

}  // namespace periscope
