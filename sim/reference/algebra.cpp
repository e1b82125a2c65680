#include <algorithm>

#include "sim/reference/ops.h"

namespace periscope {

void ReferenceBackend::run(const op::Linear& o) const {
  const double* a = elements<double>(o.x);
  const double* b = elements<double>(o.w);
  double* out = elements<double>(o.y);
  for (Index i = 0; i < o.y.rows(); ++i) {
    for (Index j = 0; j < o.y.cols(); ++j) {
      double sum = 0.0;
      for (Index k = 0; k < o.x.cols(); ++k) sum += a[i * o.x.cols() + k] * b[j * o.x.cols() + k];
      out[i * o.y.cols() + j] = sum;
    }
  }
}

void ReferenceBackend::run(const op::LinearBackwardInput& o) const {
  const double* a = elements<double>(o.dy);
  const double* b = elements<double>(o.w);
  double* out = elements<double>(o.dx);
  for (Index i = 0; i < o.dx.rows(); ++i) {
    for (Index k = 0; k < o.dx.cols(); ++k) {
      double sum = 0.0;
      for (Index j = 0; j < o.dy.cols(); ++j) sum += a[i * o.dy.cols() + j] * b[j * o.dx.cols() + k];
      out[i * o.dx.cols() + k] = sum;
    }
  }
}

void ReferenceBackend::run(const op::LinearBackwardWeight& o) const {
  const double* a = elements<double>(o.dy);
  const double* b = elements<double>(o.x);
  double* out = elements<double>(o.dw);
  for (Index j = 0; j < o.dw.rows(); ++j) {
    for (Index k = 0; k < o.dw.cols(); ++k) {
      double sum = 0.0;
      for (Index i = 0; i < o.x.rows(); ++i) sum += a[i * o.dw.rows() + j] * b[i * o.dw.cols() + k];
      out[j * o.dw.cols() + k] = sum;
    }
  }
}

void ReferenceBackend::run(const op::Axpby& o) const {
  const double* u = elements<double>(o.x);
  const double* v = elements<double>(o.y);
  double* out = elements<double>(o.z);
  for (Index i = 0; i < o.z.size(); ++i) out[i] = o.a * u[i] + o.b * v[i];
}

void ReferenceBackend::run(const op::Scale& o) const {
  const double* u = elements<double>(o.x);
  double* out = elements<double>(o.y);
  for (Index i = 0; i < o.y.size(); ++i) out[i] = o.a * u[i];
}

void ReferenceBackend::run(const op::Multiply& o) const {
  const double* u = elements<double>(o.x);
  const double* v = elements<double>(o.y);
  double* out = elements<double>(o.z);
  for (Index i = 0; i < o.z.size(); ++i) out[i] = u[i] * v[i];
}

void ReferenceBackend::run(const op::AddRow& o) const {
  const double* u = elements<double>(o.x);
  const double* v = elements<double>(o.row);
  double* out = elements<double>(o.y);
  for (Index i = 0; i < o.y.size(); ++i) out[i] = u[i] + v[i % o.y.cols()];
}

void ReferenceBackend::run(const op::ColumnSums& o) const {
  double* out = elements<double>(o.sums);
  std::fill_n(out, o.sums.size(), 0.0);
  for (Index i = 0; i < o.x.size(); ++i) out[i % o.x.cols()] += elements<double>(o.x)[i];
}

void ReferenceBackend::run(const op::Gather& o) const {
  double* out = elements<double>(o.y);
  for (const int id : o.ids) out = std::copy_n(elements<double>(o.table) + id * o.y.cols(), o.y.cols(), out);
}

void ReferenceBackend::run(const op::ReplaceRows& o) const {
  if (!o.y.same_as(o.x)) std::copy_n(elements<double>(o.x), o.x.size(), elements<double>(o.y));
  std::copy_n(elements<double>(o.rows), o.rows.size(), elements<double>(o.y) + o.first * o.x.cols());
}

void ReferenceBackend::run(const op::ScatterAdd& o) const {
  double* out = elements<double>(o.sums);
  std::fill_n(out, o.sums.size(), 0.0);
  for (Index i = 0; i < o.dy.size(); ++i) {
    out[o.ids[static_cast<std::size_t>(i / o.dy.cols())] * o.dy.cols() + i % o.dy.cols()] += elements<double>(o.dy)[i];
  }
}

}  // namespace periscope
