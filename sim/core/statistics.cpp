#include "sim/core/statistics.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "sim/core/checks.h"

namespace periscope {

StatisticsLayout::StatisticsLayout(const Tensor& x, const StatisticsRequest& request)
    : rows(x.rows()),
      cols(x.cols()),
      magnitude_count(std::min<Index>(request.top_magnitudes, x.size())),
      entry_count(std::min<Index>(request.top_entries, x.size())) {
  const auto place = [this](bool wanted, Index& at, Index count) {
    if (!wanted) return;
    at = size;
    size += count;
  };
  place(request.moments, moments, static_cast<Index>(row_statistics.size()) * rows);
  place(request.squares, squares, rows);
  place(!request.dots_with.empty(), dots, rows);
  place(request.cosine_of_sequences > 0, cosine, 1);
  place(request.top_magnitudes > 0, magnitudes, magnitude_count);
  place(request.top_entries > 0, entries, 3 * entry_count);
  place(request.median_magnitude, median, 1);
  place(request.column_maxima, columns, cols);
}

SignalStatistics StatisticsLayout::read(const std::vector<double>& numbers) const {
  const auto part = [&](Index first, Index count) -> std::vector<double> {
    if (first < 0) return {};
    return {numbers.begin() + first, numbers.begin() + first + count};
  };
  const auto one = [&](Index at) {
    return at < 0 ? std::numeric_limits<double>::quiet_NaN() : numbers[static_cast<std::size_t>(at)];
  };
  SignalStatistics s{.rows = {},
                     .squares = part(squares, rows),
                     .dots = part(dots, rows),
                     .token_cosine = one(cosine),
                     .top_magnitudes = part(magnitudes, magnitude_count),
                     .top_entries = {},
                     .median_magnitude = one(median),
                     .column_maxima = part(columns, cols)};
  for (std::size_t i = 0; moments >= 0 && i < row_statistics.size(); ++i) {
    s.rows.values[i] = part(moments + static_cast<Index>(i) * rows, rows);
  }
  for (Index i = 0; entries >= 0 && i < entry_count; ++i) {
    const Index at = entries + 3 * i;
    s.top_entries.push_back({static_cast<Index>(one(at)), static_cast<Index>(one(at + 1)), one(at + 2)});
  }
  return s;
}

StatisticsRecord::Slot StatisticsRecord::measure(const Tensor& x, const StatisticsRequest& request) {
  numbers_.push_back(ops_->measure(x, request));
  layouts_.emplace_back(x, request);
  return fetched_.size() + numbers_.size() - 1;
}

StatisticsRecord::Slot StatisticsRecord::squares(Tensor numbers) {
  layouts_.emplace_back(numbers.cols());
  numbers_.push_back(std::move(numbers));
  return fetched_.size() + numbers_.size() - 1;
}

void StatisticsRecord::fetch() {
  const std::vector<std::vector<double>> values = ops_->to_host(numbers_);
  for (std::size_t i = 0; i < values.size(); ++i) fetched_.push_back(layouts_[i].read(values[i]));
  numbers_.clear();
  layouts_.clear();
}

Tensor Backend::measure(const Tensor& x, const StatisticsRequest& request) const {
  const Checks check(*this, op::Measure::facts, {{"x", x}});
  check.require(request.top_magnitudes >= 0, "top_magnitudes must not be negative, found {}", request.top_magnitudes);
  check.require(request.top_entries >= 0, "top_entries must not be negative, found {}", request.top_entries);
  check.require(!request.median_magnitude || x.rows() * x.cols() > 0, "median_magnitude requires at least one element");
  const int sequences = request.cosine_of_sequences;
  check.require(sequences >= 0 && (sequences == 0 || x.rows() % sequences == 0),
                "x {} cannot be split into {} sequences of equal length", shape_of(x), sequences);
  if (!request.dots_with.empty()) {
    const Checks both(*this, op::Measure::facts, {{"x", x}, {"dots_with", request.dots_with}});
    both.shape("dots_with", request.dots_with, x.rows(), x.cols());
  }
  const StatisticsLayout layout(x, request);
  return run_into<op::Measure>(do_allocate(1, layout.size, DType::f64), x, request, layout);
}

SignalStatistics Backend::statistics_of(const Tensor& x, const StatisticsRequest& request) const {
  return StatisticsLayout(x, request).read(to_host(measure(x, request)));
}

RowMoments Backend::row_moments(const Tensor& x) const { return statistics_of(x, {.moments = true}).rows; }

std::vector<double> Backend::row_dots(const Tensor& x, const Tensor& y) const {
  const Checks check(*this, op::Measure::facts, {{"x", x}, {"y", y}});
  return statistics_of(x, {.dots_with = y}).dots;
}

std::vector<double> Backend::column_maxima(const Tensor& x) const {
  return statistics_of(x, {.column_maxima = true}).column_maxima;
}

}  // namespace periscope
