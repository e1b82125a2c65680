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

namespace {

// NaN has no order: it would break a selection, and it is the largest thing to report.
template <class T>
T ordered_magnitude(T v) {
  return std::isnan(v) ? std::numeric_limits<T>::infinity() : std::abs(v);
}

template <class T>
std::vector<T> ordered_magnitudes(const T* x, Index size) {
  std::vector<T> magnitudes(at(size));
  std::transform(x, x + size, magnitudes.begin(), ordered_magnitude<T>);
  return magnitudes;
}

}  // namespace

template <class T>
std::vector<double> column_maxima(const T* x, Index rows, Index cols) {
  constexpr Index columns = 64;
  std::vector<double> maxima(at(cols), 0.0);
  const auto raise = [&](Index first, Index count) {
    for (Index i = 0; i < rows; ++i) {
      for (Index j = first; j < first + count; ++j) {
        maxima[at(j)] = std::max(maxima[at(j)], static_cast<double>(ordered_magnitude(x[i * cols + j])));
      }
    }
  };
  for_chunks(cols, raise, columns);
  return maxima;
}

template <class T>
std::vector<double> top_magnitudes(const T* x, Index size, int count) {
  std::vector<T> magnitudes = ordered_magnitudes(x, size);
  const auto kept = magnitudes.begin() + std::min<Index>(size, count);
  std::nth_element(magnitudes.begin(), kept - 1, magnitudes.end(), std::greater<>());
  std::sort(magnitudes.begin(), kept, std::greater<>());
  return {magnitudes.begin(), kept};
}

// One pass with a heap of the places of the best so far, the worst of them on top: nearly all elements fail its test.
template <class T>
std::vector<Entry> top_entries(const T* x, Index rows, Index cols, int count) {
  const auto better = [x](Index a, Index b) {
    const T of_a = ordered_magnitude(x[a]);
    const T of_b = ordered_magnitude(x[b]);
    return of_a > of_b || (of_a == of_b && a < b);
  };
  std::vector<Index> best;
  for (Index i = 0; i < rows * cols; ++i) {
    if (best.size() == static_cast<std::size_t>(count)) {
      if (!better(i, best.front())) continue;
      std::pop_heap(best.begin(), best.end(), better);
      best.pop_back();
    }
    best.push_back(i);
    std::push_heap(best.begin(), best.end(), better);
  }
  std::sort_heap(best.begin(), best.end(), better);
  std::vector<Entry> entries;
  for (const Index i : best) entries.push_back({i / cols, i % cols, static_cast<double>(x[i])});
  return entries;
}

template <class T>
double median_magnitude(const T* x, Index size) {
  std::vector<T> magnitudes = ordered_magnitudes(x, size);
  const auto upper = magnitudes.begin() + size / 2;
  std::nth_element(magnitudes.begin(), upper, magnitudes.end());
  const auto lower = size % 2 == 1 ? upper : std::max_element(magnitudes.begin(), upper);
  return (static_cast<double>(*lower) + static_cast<double>(*upper)) / 2.0;
}

template RowMoments row_moments<double>(const double*, Index, Index);
template RowMoments row_moments<float>(const float*, Index, Index);
template std::vector<double> row_dots<double>(const double*, const double*, Index, Index);
template std::vector<double> row_dots<float>(const float*, const float*, Index, Index);
template double token_cosine<double>(const double*, Index, Index, int);
template double token_cosine<float>(const float*, Index, Index, int);
template std::vector<double> column_maxima<double>(const double*, Index, Index);
template std::vector<double> column_maxima<float>(const float*, Index, Index);
template std::vector<double> top_magnitudes<double>(const double*, Index, int);
template std::vector<double> top_magnitudes<float>(const float*, Index, int);
template std::vector<Entry> top_entries<double>(const double*, Index, Index, int);
template std::vector<Entry> top_entries<float>(const float*, Index, Index, int);
template double median_magnitude<double>(const double*, Index);
template double median_magnitude<float>(const float*, Index);

}  // namespace periscope::cpu
