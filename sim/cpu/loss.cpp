#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "sim/base/first_exception.h"
#include "sim/cpu/ops.h"

namespace periscope {
namespace cpu {
namespace {

// Computed in double for every element type: the gradient of a confident token is p − 1 for a probability p near one,
// of which float would keep few digits.
template <class T>
double cross_entropy(const T* logits, std::span<const int> labels, T* dlogits, Index classes) {
  const auto rows = static_cast<Index>(labels.size());
  const auto labelled = static_cast<double>(rows - std::ranges::count(labels, no_label));
  std::vector<double> losses(labels.size());
  FirstException failure;
#pragma omp parallel for schedule(static)
  for (Index t = 0; t < rows; ++t) {
    failure.run([&] {
      const auto place = static_cast<std::size_t>(t);
      Row<T> out(dlogits + t * classes, classes);
      if (labels[place] == no_label) {
        out.setZero();
        return;
      }
      const auto row = ConstRow<T>(logits + t * classes, classes).template cast<double>();
      const double largest = row.maxCoeff();
      Eigen::ArrayXd p = (row - largest).exp().transpose();
      const double total = p.sum();
      losses[place] = std::log(total) - (row(labels[place]) - largest);
      p /= total;
      p(labels[place]) -= 1.0;
      out = (p / labelled).transpose().template cast<T>();
    });
  }
  failure.rethrow();
  return labelled == 0.0 ? 0.0 : std::accumulate(losses.begin(), losses.end(), 0.0) / labelled;
}

template <class T>
void token_losses(const T* logits, std::span<const int> labels, double* losses, Index classes) {
  const auto rows = static_cast<Index>(labels.size());
#pragma omp parallel for schedule(static)
  for (Index t = 0; t < rows; ++t) {
    const auto place = static_cast<std::size_t>(t);
    losses[t] = std::numeric_limits<double>::quiet_NaN();
    if (labels[place] == no_label) continue;
    const auto row = ConstRow<T>(logits + t * classes, classes).template cast<double>();
    const double largest = row.maxCoeff();
    losses[t] = std::log((row - largest).exp().sum()) - (row(labels[place]) - largest);
  }
}

}  // namespace
}  // namespace cpu

using cpu::with_type_of;

void CpuBackend::run(const op::CrossEntropy& o) const {
  with_type_of(o.logits, [&]<class T>(T) {
    o.out.loss = cpu::cross_entropy(elements<T>(o.logits), o.labels, elements<T>(o.out.dlogits), o.logits.cols());
  });
}

void CpuBackend::run(const op::TokenLosses& o) const {
  with_type_of(o.logits, [&]<class T>(T) {
    cpu::token_losses(elements<T>(o.logits), o.labels, elements<double>(o.losses), o.logits.cols());
  });
}

}  // namespace periscope
