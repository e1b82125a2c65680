#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/reference/ops.h"

namespace periscope {

void ReferenceBackend::run(const op::CrossEntropy& o) const {
  const auto labelled = static_cast<double>(o.logits.rows() - std::ranges::count(o.labels, no_label));
  const Index classes = o.logits.cols();
  for (Index t = 0; t < o.logits.rows(); ++t) {
    const int label = o.labels[static_cast<std::size_t>(t)];
    const double* row = elements<double>(o.logits) + t * classes;
    double* dlogit = elements<double>(o.out.dlogits) + t * classes;
    for (Index j = 0; j < classes; ++j) dlogit[j] = 0.0;
    if (label == no_label) continue;
    double largest = row[0];
    for (Index j = 0; j < classes; ++j) largest = std::max(largest, row[j]);
    double total = 0.0;
    for (Index j = 0; j < classes; ++j) total += std::exp(row[j] - largest);
    o.out.loss += (std::log(total) - (row[label] - largest)) / labelled;
    for (Index j = 0; j < classes; ++j) {
      const double p = std::exp(row[j] - largest) / total;
      dlogit[j] = (p - (j == label ? 1.0 : 0.0)) / labelled;
    }
  }
}

void ReferenceBackend::run(const op::TokenLosses& o) const {
  const Index classes = o.logits.cols();
  for (Index t = 0; t < o.logits.rows(); ++t) {
    const int label = o.labels[static_cast<std::size_t>(t)];
    double& loss = elements<double>(o.losses)[t];
    loss = std::numeric_limits<double>::quiet_NaN();
    if (label == no_label) continue;
    const double* row = elements<double>(o.logits) + t * classes;
    const double largest = *std::max_element(row, row + classes);
    double total = 0.0;
    for (Index v = 0; v < classes; ++v) total += std::exp(row[v] - largest);
    loss = std::log(total) - (row[label] - largest);
  }
}

}  // namespace periscope
