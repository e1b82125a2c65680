#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "sim/cpu/chunks.h"
#include "sim/cpu/eigen_maps.h"
#include "sim/cpu/kernels.h"

namespace periscope::cpu {
namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

}  // namespace

template <class T>
RowMoments row_moments(const T* x, Index rows, Index cols) {
  const std::vector<double> zeros(at(rows), 0.0);
  RowMoments m{zeros, zeros, zeros, zeros, zeros};
  const auto n = static_cast<double>(cols);
#pragma omp parallel for schedule(static) if (rows * cols > worth_threads)
  for (Index t = 0; t < rows; ++t) {
    const auto row = ConstRow<T>(x + t * cols, cols).template cast<double>();
    const double mean = row.mean();
    const double second = (row - mean).square().sum();
    const double fourth = (row - mean).square().square().sum();
    m.mean[at(t)] = mean;
    m.second_moment[at(t)] = row.square().mean();
    m.variance[at(t)] = second / n;
    m.kurtosis[at(t)] = n * fourth / (second * second);
    m.maximum[at(t)] = row.abs().template maxCoeff<Eigen::PropagateNaN>();
  }
  return m;
}

template <class T>
std::vector<double> row_dots(const T* x, const T* y, Index rows, Index cols) {
  std::vector<double> dots(at(rows));
#pragma omp parallel for schedule(static) if (rows * cols > worth_threads)
  for (Index t = 0; t < rows; ++t) {
    dots[at(t)] = (ConstRow<T>(x + t * cols, cols).template cast<double>() *
                   ConstRow<T>(y + t * cols, cols).template cast<double>())
                      .sum();
  }
  return dots;
}

template <class T>
double token_cosine(const T* x, Index rows, Index cols, int sequences) {
  const Index tokens = rows / sequences;
  if (tokens < 2) return std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> squares = row_dots(x, x, rows, cols);
  double total = 0.0;
  for (Index sequence = 0; sequence < sequences; ++sequence) {
    Eigen::ArrayXd sum = Eigen::ArrayXd::Zero(cols);
    for (Index t = sequence * tokens; t < (sequence + 1) * tokens; ++t) {
      sum += ConstRow<T>(x + t * cols, cols).template cast<double>().transpose() / std::sqrt(squares[at(t)]);
    }
    total += sum.square().sum() - static_cast<double>(tokens);
  }
  return total / (static_cast<double>(sequences) * static_cast<double>(tokens) * static_cast<double>(tokens - 1));
}

template <class T>
std::vector<double> top_magnitudes(const T* x, Index size, int count) {
  std::vector<T> magnitudes(at(size));
  std::transform(x, x + size, magnitudes.begin(), [](T v) { return std::abs(v); });
  // NaN has no order: it would break the selection, and it is the largest thing to report.
  for (T& v : magnitudes) {
    if (std::isnan(v)) v = std::numeric_limits<T>::infinity();
  }
  const auto kept = magnitudes.begin() + std::min<Index>(size, count);
  std::nth_element(magnitudes.begin(), kept - 1, magnitudes.end(), std::greater<>());
  std::sort(magnitudes.begin(), kept, std::greater<>());
  return {magnitudes.begin(), kept};
}

template RowMoments row_moments<double>(const double*, Index, Index);
template RowMoments row_moments<float>(const float*, Index, Index);
template std::vector<double> row_dots<double>(const double*, const double*, Index, Index);
template std::vector<double> row_dots<float>(const float*, const float*, Index, Index);
template double token_cosine<double>(const double*, Index, Index, int);
template double token_cosine<float>(const float*, Index, Index, int);
template std::vector<double> top_magnitudes<double>(const double*, Index, int);
template std::vector<double> top_magnitudes<float>(const float*, Index, int);

}  // namespace periscope::cpu
