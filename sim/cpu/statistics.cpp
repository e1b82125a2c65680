#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "sim/cpu/ops.h"

namespace periscope {
namespace cpu {
namespace {

template <class T>
auto in_double(const T* row, Index n) {
  return ConstRow<T>(row, n).template cast<double>();
}

/// The five moments of a row of n numbers, `step` apart.
template <class T>
void moments_of_row(const T* x, Index n, double* moments, Index step) {
  const auto row = in_double(x, n);
  const double mean = row.mean();
  const double second = (row - mean).square().sum();
  const double fourth = (row - mean).square().square().sum();
  moments[0] = mean;
  moments[step] = row.square().mean();
  moments[2 * step] = second / static_cast<double>(n);
  moments[3 * step] = static_cast<double>(n) * fourth / (second * second);
  moments[4 * step] = row.abs().template maxCoeff<Eigen::PropagateNaN>();
}

template <class T>
double dot(const T* x, const T* y, Index n) {
  return (in_double(x, n) * in_double(y, n)).sum();
}

/// Sums of the unit rows, every thread some columns of them; then one number per sequence. `squares` by row.
template <class T>
double token_cosine(const T* x, const double* squares, Index rows, Index cols, int sequences) {
  const Index tokens = rows / sequences;
  if (tokens < 2) return std::numeric_limits<double>::quiet_NaN();
  constexpr Index columns = 64;
  double total = 0.0;
  for (Index sequence = 0; sequence < sequences; ++sequence) {
    Eigen::ArrayXd sum = Eigen::ArrayXd::Zero(cols);
#pragma omp parallel for schedule(static) if (tokens * cols > worth_threads)
    for (Index first = 0; first < cols; first += columns) {
      const Index count = std::min(columns, cols - first);
      for (Index t = sequence * tokens; t < (sequence + 1) * tokens; ++t) {
        sum.segment(first, count) += in_double(x + t * cols + first, count).transpose() / std::sqrt(squares[t]);
      }
    }
    total += sum.square().sum() - static_cast<double>(tokens);
  }
  return total / (static_cast<double>(sequences) * static_cast<double>(tokens) * static_cast<double>(tokens - 1));
}

// NaN compares with nothing, which would break a selection. It counts as infinite, so that it is reported first.
template <class T>
T ordered_magnitude(T v) {
  return std::isnan(v) ? std::numeric_limits<T>::infinity() : std::abs(v);
}

template <class T>
void column_maxima(const T* x, Index rows, Index cols, double* maxima) {
  constexpr Index columns = 64;
#pragma omp parallel for schedule(static) if (rows * cols > worth_threads)
  for (Index first = 0; first < cols; first += columns) {
    const Index end = std::min(cols, first + columns);
    std::fill(maxima + first, maxima + end, 0.0);
    for (Index i = 0; i < rows; ++i) {
      for (Index j = first; j < end; ++j) {
        maxima[j] = std::max(maxima[j], static_cast<double>(ordered_magnitude(x[i * cols + j])));
      }
    }
  }
}

/// Places of the `count` largest magnitudes, in descending order, equal ones in the order of places. Only pieces whose
/// largest element is among the `count` largest of all pieces can hold one of them.
template <class T>
std::vector<Index> largest_places(const T* x, Index size, Index count) {
  constexpr Index piece = 64;
  const Index pieces = (size + piece - 1) / piece;
  std::vector<T> maxima(static_cast<std::size_t>(pieces));
#pragma omp parallel for schedule(static) if (size > worth_threads)
  for (Index p = 0; p < pieces; ++p) {
    const ConstRow<T> part(x + p * piece, std::min(piece, size - p * piece));
    maxima[static_cast<std::size_t>(p)] = ordered_magnitude(part.abs().template maxCoeff<Eigen::PropagateNaN>());
  }
  T least = T(0);
  if (pieces > count) {
    std::vector<T> sorted = maxima;
    std::nth_element(sorted.begin(), sorted.begin() + count - 1, sorted.end(), std::greater<>());
    least = sorted[static_cast<std::size_t>(count - 1)];
  }
  std::vector<Index> places;
  for (Index p = 0; p < pieces; ++p) {
    if (maxima[static_cast<std::size_t>(p)] < least) continue;
    for (Index i = p * piece; i < std::min(size, (p + 1) * piece); ++i) {
      if (ordered_magnitude(x[i]) >= least) places.push_back(i);
    }
  }
  const auto before = [x](Index a, Index b) {
    const T of_a = ordered_magnitude(x[a]);
    const T of_b = ordered_magnitude(x[b]);
    return of_a > of_b || (of_a == of_b && a < b);
  };
  std::partial_sort(places.begin(), places.begin() + count, places.end(), before);
  places.resize(static_cast<std::size_t>(count));
  return places;
}

template <class T>
double median_magnitude(const T* x, Index size) {
  std::vector<T> magnitudes(static_cast<std::size_t>(size));
  std::transform(x, x + size, magnitudes.begin(), ordered_magnitude<T>);
  const auto upper = magnitudes.begin() + size / 2;
  std::nth_element(magnitudes.begin(), upper, magnitudes.end());
  const auto lower = size % 2 == 1 ? upper : std::max_element(magnitudes.begin(), upper);
  return (static_cast<double>(*lower) + static_cast<double>(*upper)) / 2.0;
}

/// What needs whole rows, in one pass: a row is read from memory once.
template <class T>
void measure_rows(const T* x, const T* y, Index rows, Index n, const StatisticsLayout& layout, double* squares,
                  double* out) {
#pragma omp parallel for schedule(static) if (rows * n > worth_threads)
  for (Index t = 0; t < rows; ++t) {
    const T* row = x + t * n;
    if (layout.moments >= 0) moments_of_row(row, n, out + layout.moments + t, rows);
    if (squares != nullptr) squares[t] = dot(row, row, n);
    if (layout.dots >= 0) out[layout.dots + t] = dot(row, y + t * n, n);
  }
}

template <class T>
void write_largest(const T* x, Index size, const StatisticsLayout& layout, double* out) {
  const Index magnitudes = layout.magnitudes < 0 ? 0 : layout.magnitude_count;
  const Index entries = layout.entries < 0 ? 0 : layout.entry_count;
  if (magnitudes + entries == 0) return;
  const std::vector<Index> places = largest_places(x, size, std::max(magnitudes, entries));
  for (Index i = 0; i < std::max(magnitudes, entries); ++i) {
    const Index place = places[static_cast<std::size_t>(i)];
    if (i < magnitudes) out[layout.magnitudes + i] = static_cast<double>(ordered_magnitude(x[place]));
    if (i >= entries) continue;
    double* entry = out + layout.entries + 3 * i;
    entry[0] = static_cast<double>(place / layout.cols);
    entry[1] = static_cast<double>(place % layout.cols);
    entry[2] = static_cast<double>(x[place]);
  }
}

}  // namespace
}  // namespace cpu

// -------------------------------------------------------------------------------------------------

void CpuBackend::do_measure(const Tensor& x, const StatisticsRequest& request, const StatisticsLayout& layout,
                            Tensor& numbers) const {
  double* out = elements<double>(numbers);
  std::vector<double> kept;
  double* squares = layout.squares < 0 ? nullptr : out + layout.squares;
  if (layout.cosine >= 0 && squares == nullptr) {
    kept.resize(static_cast<std::size_t>(x.rows()));
    squares = kept.data();
  }
  cpu::with_type_of(x, [&]<class T>(T) {
    const T* in = elements<T>(x);
    const T* other = layout.dots < 0 ? nullptr : elements<T>(request.dots_with);
    if (layout.moments >= 0 || squares != nullptr || layout.dots >= 0) {
      cpu::measure_rows(in, other, x.rows(), x.cols(), layout, squares, out);
    }
    if (layout.cosine >= 0) {
      out[layout.cosine] = cpu::token_cosine(in, squares, x.rows(), x.cols(), request.cosine_of_sequences);
    }
    if (layout.columns >= 0) cpu::column_maxima(in, x.rows(), x.cols(), out + layout.columns);
    cpu::write_largest(in, x.size(), layout, out);
    if (layout.median >= 0) out[layout.median] = cpu::median_magnitude(in, x.size());
  });
}

}  // namespace periscope
