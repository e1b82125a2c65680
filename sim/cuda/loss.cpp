#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "sim/cuda/moments.h"
#include "sim/cuda/ops.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

/// The maximum of a row and Σ exp(x − maximum), in double.
struct RowSoftmax {
  double largest;
  double total;
};

template <class T>
PERISCOPE_HOST_DEVICE RowSoftmax row_softmax(const Block& block, double* shared, const In<T>& row, Index classes) {
  const auto larger = [](double& a, double b) { a = a < b ? b : a; };
  const double largest = block.reduce(
      shared, classes, -HUGE_VAL, [&](double& a, Index j) { larger(a, static_cast<double>(widen(row[j]))); }, larger);
  const double total =
      block.sum(shared, classes, [&](Index j) { return std::exp(static_cast<double>(widen(row[j])) - largest); });
  return {largest, total};
}

/// Writes the loss of a row and, unless `dlogits` is null, its gradient. A row without a label has the loss 0 with
/// dlogits, else NaN. Computed in double: for a confidently predicted token, the gradient p − 1 with p near 1 would
/// cancel in float.
template <class T>
struct CrossEntropyRow {
  using Shared = SumShared;
  In<T> logits;
  In<int> labels;
  double labelled;  ///< number of labelled rows
  Out<double> losses;
  Out<T> dlogits;
  Index classes;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index t) const {
    const In<T> row = logits + t * classes;
    const Out<T> out = dlogits ? dlogits + t * classes : dlogits;
    const Index gradients = dlogits ? classes : 0;
    const int label = labels[t];
    if (label == no_label) {
      block.threads([&](int thread) {
        if (thread == 0) losses[t] = dlogits ? 0.0 : std::numeric_limits<double>::quiet_NaN();
        for (Index j = thread; j < gradients; j += Block::size) out[j] = from_double<T>(0.0);
      });
      return;
    }
    const RowSoftmax s = row_softmax(block, shared.sums, row, classes);
    block.threads([&](int thread) {
      if (thread == 0) losses[t] = std::log(s.total) - (static_cast<double>(widen(row[label])) - s.largest);
      for (Index j = thread; j < gradients; j += Block::size) {
        const double p = std::exp(static_cast<double>(widen(row[j])) - s.largest) / s.total;
        out[j] = from_double<T>((p - (j == label ? 1.0 : 0.0)) / labelled);
      }
    });
  }
};

}  // namespace

void CudaBackend::run(const op::CrossEntropy& o) const {
  const Index rows = o.logits.rows();
  const auto labelled = static_cast<double>(rows - std::ranges::count(o.labels, no_label));
  const std::shared_ptr<int> device_labels = execution_.uploaded(o.labels);
  const std::shared_ptr<double> losses = execution_.take_array<double>(rows + 1);
  double* const total = losses.get() + rows;
  with_type(o.logits.dtype(), [&]<class T>(T) {
    for_blocks(execution_, rows,
               CrossEntropyRow<T>{data<T>(o.logits), device_labels.get(), labelled, losses.get(),
                                  data<T>(o.out.dlogits), o.logits.cols()});
  });
  for_blocks(execution_, 1, Sum{losses.get(), rows, total});
  const DevicePart part{total, sizeof(double)};
  const std::vector<std::byte> bytes = execution_.download({&part, 1});
  double sum = 0.0;
  std::memcpy(&sum, bytes.data(), sizeof sum);
  o.out.loss = labelled == 0.0 ? 0.0 : sum / labelled;
}

void CudaBackend::run(const op::TokenLosses& o) const {
  const std::shared_ptr<int> device_labels = execution_.uploaded(o.labels);
  with_type(o.logits.dtype(), [&]<class T>(T) {
    for_blocks(execution_, o.logits.rows(),
               CrossEntropyRow<T>{data<T>(o.logits), device_labels.get(), 0.0, data<double>(o.losses), nullptr,
                                  o.logits.cols()});
  });
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
