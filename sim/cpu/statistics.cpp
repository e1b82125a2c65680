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

/// Partial sums over a row in double, one per lane. Explicit lanes vectorise without -ffast-math.
using Lanes = Eigen::Array<double, 1, 16>;
constexpr Index lanes = Lanes::SizeAtCompileTime;

template <class T>
Lanes lanes_of(const T* x) {
  return Eigen::Map<const Eigen::Array<T, 1, lanes>>(x).template cast<double>();
}

/// Sums of the first pass over a row.
struct RowSums {
  double sum = 0.0, squares = 0.0;
};

template <class T>
RowSums sums_of_row(const T* x, Index n) {
  Lanes sum = Lanes::Zero();
  Lanes squares = Lanes::Zero();
  Index j = 0;
  for (; j + lanes <= n; j += lanes) {
    const Lanes v = lanes_of(x + j);
    sum += v;
    squares += v.square();
  }
  RowSums all{sum.sum(), squares.sum()};
  for (; j < n; ++j) {
    const auto v = static_cast<double>(x[j]);
    all.sum += v;
    all.squares += v * v;
  }
  return all;
}

/// Σ (x − mean)² and Σ (x − mean)⁴.
struct CentredSums {
  double second = 0.0, fourth = 0.0;
};

template <class T>
CentredSums centred_sums_of_row(const T* x, Index n, double mean) {
  Lanes second = Lanes::Zero();
  Lanes fourth = Lanes::Zero();
  Index j = 0;
  for (; j + lanes <= n; j += lanes) {
    const Lanes square = (lanes_of(x + j) - mean).square();
    second += square;
    fourth += square.square();
  }
  CentredSums all{second.sum(), fourth.sum()};
  for (; j < n; ++j) {
    const double d = static_cast<double>(x[j]) - mean;
    all.second += d * d;
    all.fourth += d * d * d * d;
  }
  return all;
}

/// Writes the row_statistics of a row of n numbers to moments[0], moments[step], … in a second pass over the row.
template <class T>
void moments_of_row(const T* x, Index n, const RowSums& sums, double* moments, Index step) {
  const double mean = sums.sum / static_cast<double>(n);
  const CentredSums centred = centred_sums_of_row(x, n, mean);
  const auto at = [&](Statistic s) -> double& { return moments[static_cast<Index>(row_statistic(s)) * step]; };
  at(Statistic::mean) = mean;
  at(Statistic::second_moment) = sums.squares / static_cast<double>(n);
  at(Statistic::variance) = centred.second / static_cast<double>(n);
  at(Statistic::kurtosis) = static_cast<double>(n) * centred.fourth / (centred.second * centred.second);
  at(Statistic::maximum) = static_cast<double>(ConstRow<T>(x, n).abs().template maxCoeff<Eigen::PropagateNaN>());
}

template <class T>
double dot(const T* x, const T* y, Index n) {
  return (in_double(x, n) * in_double(y, n)).sum();
}

/// Number of rows whose unit vectors are summed together, while they are in the cache; depends only on the shape.
Index rows_of_chunk(Index tokens) { return std::max<Index>(8, (tokens + 31) / 32); }

/// Returns the token cosine of one sequence, given the sums [chunks, cols] of its rows' unit vectors.
double cosine_of(const std::vector<double>& sums, Index chunks, Index cols, Index tokens) {
  Eigen::ArrayXd total = Eigen::ArrayXd::Zero(cols);
  for (Index c = 0; c < chunks; ++c) total += Eigen::Map<const Eigen::ArrayXd>(sums.data() + c * cols, cols);
  const auto t = static_cast<double>(tokens);
  return (total.square().sum() - t) / (t * (t - 1.0));
}

// NaN counts as infinite, so that NaN entries are reported first. Comparisons with NaN would break the selection.
template <class T>
T ordered_magnitude(T v) {
  return std::isnan(v) ? std::numeric_limits<T>::infinity() : std::abs(v);
}

template <class T>
void column_maxima(const T* x, Index rows, Index cols, double* maxima) {
  constexpr Index columns = 64;
#pragma omp parallel for schedule(static) if (rows * cols > min_parallel_size)
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

/// Returns the indices of the `count` largest magnitudes in descending order, ties by index. Searches only pieces whose
/// maximum is among the `count` largest maxima of all pieces, since no other piece contains one of the results.
template <class T>
std::vector<Index> largest_indices(const T* x, Index size, Index count) {
  constexpr Index piece = 64;
  const Index pieces = (size + piece - 1) / piece;
  std::vector<T> maxima(static_cast<std::size_t>(pieces));
#pragma omp parallel for schedule(static) if (size > min_parallel_size)
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
  std::vector<Index> indices;
  for (Index p = 0; p < pieces; ++p) {
    if (maxima[static_cast<std::size_t>(p)] < least) continue;
    for (Index i = p * piece; i < std::min(size, (p + 1) * piece); ++i) {
      if (ordered_magnitude(x[i]) >= least) indices.push_back(i);
    }
  }
  const auto before = [x](Index a, Index b) {
    const T of_a = ordered_magnitude(x[a]);
    const T of_b = ordered_magnitude(x[b]);
    return of_a > of_b || (of_a == of_b && a < b);
  };
  std::partial_sort(indices.begin(), indices.begin() + count, indices.end(), before);
  indices.resize(static_cast<std::size_t>(count));
  return indices;
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

/// Computes all statistics of rows first … first + count − 1 in one pass, so that each row is read from memory once.
/// Unless null, `units` receives the sum [cols] of the rows' unit vectors.
template <class T>
void measure_rows(const T* x, const T* y, Index first, Index count, const StatisticsLayout& layout, double* out,
                  double* units) {
  const Index n = layout.cols;
  if (units != nullptr) std::fill_n(units, n, 0.0);
  for (Index t = first; t < first + count; ++t) {
    const T* row = x + t * n;
    const bool needs_sums = layout.moments >= 0 || layout.squares >= 0 || units != nullptr;
    const RowSums sums = needs_sums ? sums_of_row(row, n) : RowSums{};
    if (layout.moments >= 0) moments_of_row(row, n, sums, out + layout.moments + t, layout.rows);
    if (layout.squares >= 0) out[layout.squares + t] = sums.squares;
    if (layout.dots >= 0) out[layout.dots + t] = dot(row, y + t * n, n);
    if (units == nullptr) continue;
    Eigen::Map<Eigen::Array<double, 1, Eigen::Dynamic>>(units, n) +=
        in_double(row, n) * (1.0 / std::sqrt(sums.squares));
  }
}

/// Computes all row statistics and the cosine; threads process chunks of the rows of a sequence.
template <class T>
void measure_all_rows(const T* x, const T* y, int sequences, const StatisticsLayout& layout, double* out) {
  const bool with_cosine = layout.cosine >= 0;
  const Index groups = with_cosine ? sequences : 1;
  const Index tokens = layout.rows / groups;
  const Index height = rows_of_chunk(tokens);
  const Index chunks = (tokens + height - 1) / height;
  std::vector<double> units(with_cosine ? static_cast<std::size_t>(chunks * layout.cols) : 0);
  double total = 0.0;
  for (Index group = 0; group < groups; ++group) {
#pragma omp parallel for schedule(static) if (tokens * layout.cols > min_parallel_size)
    for (Index c = 0; c < chunks; ++c) {
      measure_rows(x, y, group * tokens + c * height, std::min(height, tokens - c * height), layout, out,
                   with_cosine ? units.data() + c * layout.cols : nullptr);
    }
    if (with_cosine) total += cosine_of(units, chunks, layout.cols, tokens);
  }
  if (!with_cosine) return;
  out[layout.cosine] = tokens < 2 ? std::numeric_limits<double>::quiet_NaN() : total / static_cast<double>(sequences);
}

template <class T>
void write_largest(const T* x, Index size, const StatisticsLayout& layout, double* out) {
  const Index magnitudes = layout.magnitudes < 0 ? 0 : layout.magnitude_count;
  const Index entries = layout.entries < 0 ? 0 : layout.entry_count;
  if (magnitudes + entries == 0) return;
  const std::vector<Index> indices = largest_indices(x, size, std::max(magnitudes, entries));
  for (Index i = 0; i < std::max(magnitudes, entries); ++i) {
    const Index index = indices[static_cast<std::size_t>(i)];
    if (i < magnitudes) out[layout.magnitudes + i] = static_cast<double>(ordered_magnitude(x[index]));
    if (i >= entries) continue;
    const Index row = index / layout.cols;
    double* entry = out + layout.entries + 3 * i;
    entry[0] = static_cast<double>(row);
    entry[1] = static_cast<double>(index % layout.cols);
    entry[2] = static_cast<double>(x[index]);
  }
}

}  // namespace
}  // namespace cpu

void CpuBackend::run(const op::Measure& o) const {
  double* out = elements<double>(o.numbers);
  cpu::with_type_of(o.x, [&]<class T>(T) {
    const T* in = elements<T>(o.x);
    const T* other = o.layout.dots < 0 ? nullptr : elements<T>(o.request.dots_with);
    if (o.layout.moments >= 0 || o.layout.squares >= 0 || o.layout.dots >= 0 || o.layout.cosine >= 0) {
      cpu::measure_all_rows(in, other, o.request.cosine_of_sequences, o.layout, out);
    }
    if (o.layout.columns >= 0) cpu::column_maxima(in, o.x.rows(), o.x.cols(), out + o.layout.columns);
    cpu::write_largest(in, o.x.size(), o.layout, out);
    if (o.layout.median >= 0) out[o.layout.median] = cpu::median_magnitude(in, o.x.size());
  });
}

}  // namespace periscope
