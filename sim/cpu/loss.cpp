#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "sim/cpu/ops.h"

namespace periscope {
using cpu::ConstRow;
using cpu::with_type_of;

// Computed in double, since the gradient p − 1 at the label cancels in float if p is near 1.
void CpuBackend::run(const op::CrossEntropy& o) const {
  const Index classes = o.logits.cols();
  const auto labelled = static_cast<double>(o.logits.rows() - std::ranges::count(o.labels, no_label));
  std::vector<double> losses(o.labels.size());
  with_type_of(o.logits, [&]<class T>(T) {
    const auto loss_and_gradient = [&](Index t, Index) {
      const auto index = static_cast<std::size_t>(t);
      cpu::Row<T> out = cpu::chunk_of<T>(o.out.dlogits, t * classes, classes);
      if (o.labels[index] == no_label) {
        out.setZero();
        return;
      }
      const ConstRow<T> logits = cpu::chunk_of<T>(o.logits, t * classes, classes);
      const auto& row = logits.template cast<double>();
      const double largest = row.maxCoeff();
      Eigen::ArrayXd p = (row - largest).exp().transpose();
      const double total = p.sum();
      losses[index] = std::log(total) - (row(o.labels[index]) - largest);
      p /= total;
      p(o.labels[index]) -= 1.0;
      out = (p / labelled).transpose().template cast<T>();
    };
    cpu::for_chunks(o.logits.rows(), loss_and_gradient, 1);
  });
  o.out.loss = labelled == 0.0 ? 0.0 : std::accumulate(losses.begin(), losses.end(), 0.0) / labelled;
}

void CpuBackend::run(const op::TokenLosses& o) const {
  const Index classes = o.logits.cols();
  double* const losses = elements<double>(o.losses);
  with_type_of(o.logits, [&]<class T>(T) {
    const auto loss = [&](Index t, Index) {
      const int label = o.labels[static_cast<std::size_t>(t)];
      losses[t] = std::numeric_limits<double>::quiet_NaN();
      if (label == no_label) return;
      const ConstRow<T> logits = cpu::chunk_of<T>(o.logits, t * classes, classes);
      const auto& row = logits.template cast<double>();
      const double largest = row.maxCoeff();
      losses[t] = std::log((row - largest).exp().sum()) - (row(label) - largest);
    };
    cpu::for_chunks(o.logits.rows(), loss, 1);
  });
}

}  // namespace periscope
