#include <algorithm>
#include <cmath>
#include <functional>

#include "sim/reference/ops.h"

namespace periscope {
namespace {

using Index = Tensor::Index;

/// One row of n numbers; its five moments stand `step` apart.
void moments_of_row(const double* row, Index n, double* moments, Index step) {
  const auto count = static_cast<double>(n);
  double sum = 0.0;
  double squares = 0.0;
  double largest = 0.0;
  for (Index j = 0; j < n; ++j) {
    sum += row[j];
    squares += row[j] * row[j];
    if (std::isnan(row[j]) || std::abs(row[j]) > largest) largest = std::abs(row[j]);  // NaN stays
  }
  const double mean = sum / count;
  double second = 0.0;
  double fourth = 0.0;
  for (Index j = 0; j < n; ++j) {
    const double square = (row[j] - mean) * (row[j] - mean);
    second += square;
    fourth += square * square;
  }
  moments[0] = mean;
  moments[step] = squares / count;
  moments[2 * step] = second / count;
  moments[3 * step] = count * fourth / (second * second);
  moments[4 * step] = largest;
}

double dot(const double* x, const double* y, Index n) {
  double sum = 0.0;
  for (Index j = 0; j < n; ++j) sum += x[j] * y[j];
  return sum;
}

/// The mean over pairs, pair by pair.
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

/// All elements, in descending order of their magnitude, equal ones in the order of rows and columns.
std::vector<Entry> sorted_entries(const double* x, Index rows, Index cols) {
  std::vector<Entry> entries;
  for (Index i = 0; i < rows * cols; ++i) entries.push_back({i / cols, i % cols, x[i]});
  std::ranges::stable_sort(entries, std::greater<>(), [](const Entry& e) { return magnitude(e.value); });
  return entries;
}

}  // namespace

void ReferenceBackend::do_measure(const Tensor& x, const StatisticsRequest& request, const StatisticsLayout& layout,
                                  Tensor& numbers) const {
  const double* in = elements<double>(x);
  double* out = elements<double>(numbers);
  const Index n = x.cols();
  for (Index t = 0; t < x.rows(); ++t) {
    const double* row = in + t * n;
    if (request.moments) moments_of_row(row, n, out + layout.moments + t, x.rows());
    if (request.squares) out[layout.squares + t] = dot(row, row, n);
    if (layout.dots >= 0) out[layout.dots + t] = dot(row, elements<double>(request.dots_with) + t * n, n);
  }
  if (layout.cosine >= 0) out[layout.cosine] = mean_cosine(in, x.rows(), n, request.cosine_of_sequences);
  for (Index j = 0; request.column_maxima && j < n; ++j) {
    out[layout.columns + j] = 0.0;
    for (Index i = j; i < x.size(); i += n) {
      out[layout.columns + j] = std::max(out[layout.columns + j], magnitude(in[i]));
    }
  }
  if (layout.magnitudes < 0 && layout.entries < 0 && layout.median < 0) return;
  const std::vector<Entry> sorted = sorted_entries(in, x.rows(), n);
  const auto largest = [&](Index i) -> const Entry& { return sorted[static_cast<std::size_t>(i)]; };
  for (Index i = 0; layout.magnitudes >= 0 && i < layout.magnitude_count; ++i) {
    out[layout.magnitudes + i] = magnitude(largest(i).value);
  }
  for (Index i = 0; layout.entries >= 0 && i < layout.entry_count; ++i) {
    double* entry = out + layout.entries + 3 * i;
    entry[0] = static_cast<double>(largest(i).row);
    entry[1] = static_cast<double>(largest(i).col);
    entry[2] = largest(i).value;
  }
  if (layout.median >= 0) {
    out[layout.median] = (magnitude(largest((x.size() - 1) / 2).value) + magnitude(largest(x.size() / 2).value)) / 2.0;
  }
}

}  // namespace periscope
