#include <algorithm>
#include <cmath>
#include <functional>

#include "sim/reference/ops.h"

namespace periscope {
namespace {

using Index = Tensor::Index;

/// Writes the row_statistics of one row of n numbers to moments[0], moments[step], …
void moments_of_row(const double* row, Index n, double* moments, Index step) {
  const auto count = static_cast<double>(n);
  double sum = 0.0;
  double squares = 0.0;
  double largest = 0.0;
  for (Index j = 0; j < n; ++j) {
    sum += row[j];
    squares += row[j] * row[j];
    if (std::isnan(row[j]) || std::abs(row[j]) > largest) largest = std::abs(row[j]);  // propagates NaN
  }
  const double mean = sum / count;
  double second = 0.0;
  double fourth = 0.0;
  for (Index j = 0; j < n; ++j) {
    const double square = (row[j] - mean) * (row[j] - mean);
    second += square;
    fourth += square * square;
  }
  const auto at = [&](Statistic s) -> double& { return moments[static_cast<Index>(row_statistic(s)) * step]; };
  at(Statistic::mean) = mean;
  at(Statistic::second_moment) = squares / count;
  at(Statistic::variance) = second / count;
  at(Statistic::kurtosis) = count * fourth / (second * second);
  at(Statistic::maximum) = largest;
}

double dot(const double* x, const double* y, Index n) {
  double sum = 0.0;
  for (Index j = 0; j < n; ++j) sum += x[j] * y[j];
  return sum;
}

/// Returns the mean cosine over pairs of distinct rows of one sequence, computed pair by pair.
double mean_cosine(const double* x, Index rows, Index cols, int sequences) {
  const Index tokens = rows / sequences;
  double total = 0.0;
  for (Index sequence = 0; sequence < sequences; ++sequence) {
    for (Index t = 0; t < tokens; ++t) {
      for (Index s = 0; s < tokens; ++s) {
        if (s == t) continue;
        const double* a = x + (sequence * tokens + t) * cols;
        const double* b = x + (sequence * tokens + s) * cols;
        const double ab = dot(a, b, cols);
        total += ab / std::sqrt(dot(a, a, cols) * dot(b, b, cols));
      }
    }
  }
  return total / (static_cast<double>(sequences) * static_cast<double>(tokens) * static_cast<double>(tokens - 1));
}

double magnitude(double v) { return std::isnan(v) ? HUGE_VAL : std::abs(v); }

/// Returns all elements in descending order of magnitude, ties in row-major order.
std::vector<Entry> sorted_entries(const double* x, Index rows, Index cols) {
  std::vector<Entry> entries;
  for (Index i = 0; i < rows * cols; ++i) entries.push_back({i / cols, i % cols, x[i]});
  std::ranges::stable_sort(entries, std::greater<>(), [](const Entry& e) { return magnitude(e.value); });
  return entries;
}

}  // namespace

void ReferenceBackend::run(const op::Measure& o) const {
  const double* in = elements<double>(o.x);
  double* out = elements<double>(o.numbers);
  const Index n = o.x.cols();
  for (Index t = 0; t < o.x.rows(); ++t) {
    const double* row = in + t * n;
    if (o.request.moments) moments_of_row(row, n, out + o.layout.moments + t, o.x.rows());
    if (o.request.squares) out[o.layout.squares + t] = dot(row, row, n);
    if (o.layout.dots >= 0) out[o.layout.dots + t] = dot(row, elements<double>(o.request.dots_with) + t * n, n);
  }
  if (o.layout.cosine >= 0) out[o.layout.cosine] = mean_cosine(in, o.x.rows(), n, o.request.cosine_of_sequences);
  for (Index j = 0; o.request.column_maxima && j < n; ++j) {
    out[o.layout.columns + j] = 0.0;
    for (Index i = j; i < o.x.size(); i += n) {
      out[o.layout.columns + j] = std::max(out[o.layout.columns + j], magnitude(in[i]));
    }
  }
  if (o.layout.magnitudes < 0 && o.layout.entries < 0 && o.layout.median < 0) return;
  const std::vector<Entry> sorted = sorted_entries(in, o.x.rows(), n);
  const auto largest = [&](Index i) -> const Entry& { return sorted[static_cast<std::size_t>(i)]; };
  for (Index i = 0; o.layout.magnitudes >= 0 && i < o.layout.magnitude_count; ++i) {
    out[o.layout.magnitudes + i] = magnitude(largest(i).value);
  }
  for (Index i = 0; o.layout.entries >= 0 && i < o.layout.entry_count; ++i) {
    double* entry = out + o.layout.entries + 3 * i;
    entry[0] = static_cast<double>(largest(i).row);
    entry[1] = static_cast<double>(largest(i).col);
    entry[2] = largest(i).value;
  }
  if (o.layout.median >= 0) {
    out[o.layout.median] =
        (magnitude(largest((o.x.size() - 1) / 2).value) + magnitude(largest(o.x.size() / 2).value)) / 2.0;
  }
}

}  // namespace periscope
