#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "sim/reference/ops.h"

namespace periscope::reference {

RowMoments row_moments(const double* x, Index rows, Index cols) {
  RowMoments m;
  const auto n = static_cast<double>(cols);
  for (Index t = 0; t < rows; ++t) {
    const double* row = x + t * cols;
    double sum = 0.0;
    double squares = 0.0;
    double largest = 0.0;
    for (Index j = 0; j < cols; ++j) {
      sum += row[j];
      squares += row[j] * row[j];
      if (std::isnan(row[j]) || std::abs(row[j]) > largest) largest = std::abs(row[j]);  // NaN stays
    }
    const double mean = sum / n;
    double second = 0.0;
    double fourth = 0.0;
    for (Index j = 0; j < cols; ++j) {
      const double square = (row[j] - mean) * (row[j] - mean);
      second += square;
      fourth += square * square;
    }
    m.mean.push_back(mean);
    m.second_moment.push_back(squares / n);
    m.variance.push_back(second / n);
    m.kurtosis.push_back(n * fourth / (second * second));
    m.maximum.push_back(largest);
  }
  return m;
}

std::vector<double> row_dots(const double* x, const double* y, Index rows, Index cols) {
  std::vector<double> dots;
  for (Index t = 0; t < rows; ++t) {
    double sum = 0.0;
    for (Index j = 0; j < cols; ++j) sum += x[t * cols + j] * y[t * cols + j];
    dots.push_back(sum);
  }
  return dots;
}

double token_cosine(const double* x, Index rows, Index cols, int sequences) {
  const Index tokens = rows / sequences;
  double total = 0.0;
  for (Index sequence = 0; sequence < sequences; ++sequence) {
    for (Index t = 0; t < tokens; ++t) {
      for (Index s = 0; s < tokens; ++s) {
        if (s == t) continue;
        const double* a = x + (sequence * tokens + t) * cols;
        const double* b = x + (sequence * tokens + s) * cols;
        const double ab = row_dots(a, b, 1, cols)[0];
        total += ab / std::sqrt(row_dots(a, a, 1, cols)[0] * row_dots(b, b, 1, cols)[0]);
      }
    }
  }
  return total / (static_cast<double>(sequences) * static_cast<double>(tokens) * static_cast<double>(tokens - 1));
}

std::vector<double> column_maxima(const double* x, Index rows, Index cols) {
  std::vector<double> maxima;
  for (Index j = 0; j < cols; ++j) {
    double largest = 0.0;
    for (Index i = 0; i < rows; ++i) {
      const double magnitude = std::isnan(x[i * cols + j]) ? HUGE_VAL : std::abs(x[i * cols + j]);
      largest = std::max(largest, magnitude);
    }
    maxima.push_back(largest);
  }
  return maxima;
}

std::vector<double> top_magnitudes(const double* x, Index size, int count) {
  std::vector<double> magnitudes;
  for (Index i = 0; i < size; ++i) magnitudes.push_back(std::isnan(x[i]) ? HUGE_VAL : std::abs(x[i]));
  std::ranges::sort(magnitudes, std::greater<>());
  magnitudes.resize(std::min<std::size_t>(magnitudes.size(), static_cast<std::size_t>(count)));
  return magnitudes;
}

std::vector<Entry> top_entries(const double* x, Index rows, Index cols, int count) {
  const auto magnitude = [](const Entry& e) { return std::isnan(e.value) ? HUGE_VAL : std::abs(e.value); };
  std::vector<Entry> entries;
  for (Index i = 0; i < rows * cols; ++i) entries.push_back({i / cols, i % cols, x[i]});
  std::ranges::stable_sort(entries, std::greater<>(), magnitude);
  if (entries.size() > static_cast<std::size_t>(count)) entries.resize(static_cast<std::size_t>(count));
  return entries;
}

double median_magnitude(const double* x, Index size) {
  const std::vector<double> sorted = top_magnitudes(x, size, static_cast<int>(size));
  return (sorted[static_cast<std::size_t>((size - 1) / 2)] + sorted[static_cast<std::size_t>(size / 2)]) / 2.0;
}

std::vector<double> token_losses(const double* logits, const int* labels, Index rows, Index classes) {
  std::vector<double> losses;
  for (Index t = 0; t < rows; ++t) {
    if (labels[t] == no_label) {
      losses.push_back(std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    const double* row = logits + t * classes;
    const double largest = *std::max_element(row, row + classes);
    double total = 0.0;
    for (Index v = 0; v < classes; ++v) total += std::exp(row[v] - largest);
    losses.push_back(std::log(total) - (row[labels[t]] - largest));
  }
  return losses;
}

}  // namespace periscope::reference
