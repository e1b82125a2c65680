#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/reference/ops.h"

namespace periscope {

void ReferenceBackend::do_cross_entropy(const Tensor& logits, std::span<const int> labels, CrossEntropy& out) const {
  const auto labelled = static_cast<double>(logits.rows() - std::ranges::count(labels, no_label));
  const Index classes = logits.cols();
  for (Index t = 0; t < logits.rows(); ++t) {
    const int label = labels[static_cast<std::size_t>(t)];
    const double* row = elements<double>(logits) + t * classes;
    double* dlogit = elements<double>(out.dlogits) + t * classes;
    for (Index j = 0; j < classes; ++j) dlogit[j] = 0.0;
    if (label == no_label) continue;
    double largest = row[0];
    for (Index j = 0; j < classes; ++j) largest = std::max(largest, row[j]);
    double total = 0.0;
    for (Index j = 0; j < classes; ++j) total += std::exp(row[j] - largest);
    out.loss += (std::log(total) - (row[label] - largest)) / labelled;
    for (Index j = 0; j < classes; ++j) {
      const double p = std::exp(row[j] - largest) / total;
      dlogit[j] = (p - (j == label ? 1.0 : 0.0)) / labelled;
    }
  }
}

void ReferenceBackend::do_token_losses(const Tensor& logits, std::span<const int> labels, Tensor& losses) const {
  const Index classes = logits.cols();
  for (Index t = 0; t < logits.rows(); ++t) {
    const int label = labels[static_cast<std::size_t>(t)];
    double& loss = elements<double>(losses)[t];
    loss = std::numeric_limits<double>::quiet_NaN();
    if (label == no_label) continue;
    const double* row = elements<double>(logits) + t * classes;
    const double largest = *std::max_element(row, row + classes);
    double total = 0.0;
    for (Index v = 0; v < classes; ++v) total += std::exp(row[v] - largest);
    loss = std::log(total) - (row[label] - largest);
  }
}

}  // namespace periscope
