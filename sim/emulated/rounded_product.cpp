#include "sim/emulated/rounded_product.h"

#include <algorithm>
#include <array>
#include <vector>

#include "sim/core/storage.h"

namespace periscope {
namespace {

using Index = Tensor::Index;

/// Number of columns accumulated together.
constexpr Index strip = 64;

/// A matrix with entry (i, k) at data[i·row + k·col].
struct Strided {
  const float* data;
  Index row, col;
};

/// y_ij = Σ_k a_ik b_kj in the order of k, rounding every partial sum: a [rows, terms]; b [terms, cols] row-major.
void multiply(const Strided& a, const float* b, float* y, Index rows, Index terms, Index cols, const Rounding& r) {
  std::array<double, strip> sums;
  for (Index first = 0; first < cols; first += strip) {
    const Index width = std::min(strip, cols - first);
    for (Index i = 0; i < rows; ++i) {
      sums.fill(0.0);
      for (Index k = 0; k < terms; ++k) {
        const double factor = a.data[i * a.row + k * a.col];
        const float* others = b + k * cols + first;
        for (Index j = 0; j < width; ++j) {
          double& sum = sums[static_cast<std::size_t>(j)];
          sum = r(sum + factor * static_cast<double>(others[j]));
        }
      }
      for (Index j = 0; j < width; ++j) {
        y[i * cols + first + j] = static_cast<float>(sums[static_cast<std::size_t>(j)]);
      }
    }
  }
}

std::vector<float> transposed(const Tensor& w) {
  const float* entries = elements<float>(w);
  std::vector<float> columns(static_cast<std::size_t>(w.size()));
  for (Index i = 0; i < w.rows(); ++i) {
    for (Index j = 0; j < w.cols(); ++j) {
      columns[static_cast<std::size_t>(j * w.rows() + i)] = entries[i * w.cols() + j];
    }
  }
  return columns;
}

}  // namespace

Tensor rounded_linear(const Tensor& x, const Tensor& w, const Rounding& sums) {
  Tensor y = host_tensor(x.rows(), w.rows(), DType::f32);
  multiply({elements<float>(x), x.cols(), 1}, transposed(w).data(), elements<float>(y), x.rows(), x.cols(), w.rows(),
           sums);
  return y;
}

Tensor rounded_linear_backward_input(const Tensor& dy, const Tensor& w, const Rounding& sums) {
  Tensor dx = host_tensor(dy.rows(), w.cols(), DType::f32);
  multiply({elements<float>(dy), dy.cols(), 1}, elements<float>(w), elements<float>(dx), dy.rows(), dy.cols(), w.cols(),
           sums);
  return dx;
}

Tensor rounded_linear_backward_weight(const Tensor& dy, const Tensor& x, const Rounding& sums) {
  Tensor dw = host_tensor(dy.cols(), x.cols(), DType::f32);
  multiply({elements<float>(dy), 1, dy.cols()}, elements<float>(x), elements<float>(dw), dy.cols(), dy.rows(), x.cols(),
           sums);
  return dw;
}

}  // namespace periscope
