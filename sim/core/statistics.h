#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "sim/core/tensor.h"
#include "sim/spec/profile.h"

namespace periscope {

class Backend;

/// The row_statistics of every row of a tensor [N, D], by a two-pass algorithm in double. The maximum propagates NaN.
struct RowMoments {
  std::array<std::vector<double>, row_statistics.size()> values;  ///< values[statistic][row]
  [[nodiscard]] const std::vector<double>& operator[](Statistic s) const { return values.at(row_statistic(s)); }
};

/// An element of a tensor with its position.
struct Entry {
  Tensor::Index row;
  Tensor::Index col;
  double value;

  bool operator==(const Entry&) const = default;
};

/// The statistics to measure for a signal x [N, D].
struct StatisticsRequest {
  bool moments = false;         ///< the statistics of RowMoments
  bool squares = false;         ///< Σ_j x_ij² for every row
  Tensor dots_with = {};        ///< y [N, D]: Σ_j x_ij y_ij for every row
  int cosine_of_sequences = 0;  ///< number of sequences for the token cosine; 0: not measured
  int top_magnitudes = 0;       ///< number of largest magnitudes to return, at most N·D
  int top_entries = 0;          ///< number of entries to return, those with the largest magnitudes; at most N·D
  bool median_magnitude = false;
  bool column_maxima = false;
};

/// Statistics of a signal. Fields that were not requested are empty or NaN.
struct SignalStatistics {
  RowMoments rows;
  std::vector<double> squares;  ///< Σ_j x_ij² for every row
  std::vector<double> dots;     ///< Σ_j x_ij y_ij for every row
  /// Mean cosine of pairs of distinct rows of one sequence [T, D], averaged over sequences:
  /// (‖Σ_t x_t/‖x_t‖‖² − T) / (T (T−1)). NaN for T = 1 or a zero row.
  double token_cosine;
  /// The largest |x_ij| in descending order; NaN counts as infinite.
  std::vector<double> top_magnitudes;
  /// The elements with the largest |x_ij| in descending order, ties in row-major order; NaN counts as infinite.
  std::vector<Entry> top_entries;
  /// The median of |x_ij| (the mean of the middle two for an even number of elements); NaN counts as infinite.
  double median_magnitude;
  std::vector<double> column_maxima;  ///< max_i |x_ij| for every column; NaN counts as infinite
};

/// Offsets of the requested statistics in the f64 tensor [1, size] that stores all of them.
struct StatisticsLayout {
  StatisticsLayout(const Tensor& x, const StatisticsRequest& request);
  /// The layout of the squares of `count` rows, without other statistics.
  explicit StatisticsLayout(Tensor::Index count) : squares(0), rows(count), size(count) {}

  using Index = Tensor::Index;
  static constexpr Index none = -1;  ///< not requested
  Index moments = none;              ///< [row_statistics, N]
  Index squares = none;              ///< [N]
  Index dots = none;                 ///< [N]
  Index cosine = none;
  Index magnitudes = none;  ///< [magnitude_count]
  Index entries = none;     ///< [entry_count, 3]: row, column, value
  Index median = none;
  Index columns = none;  ///< [D]
  Index rows, cols = 0, magnitude_count = 0, entry_count = 0;
  Index size = 0;

  /// Unpacks the tensor's values, which have been copied to the host.
  [[nodiscard]] SignalStatistics read(const std::vector<double>& numbers) const;
};

/// Collects the statistics of one pass on the device; `fetch` copies all of them to the host in one transfer.
class StatisticsRecord {
 public:
  using Slot = std::size_t;

  /// `ops` must outlive the record.
  explicit StatisticsRecord(const Backend& ops) : ops_(&ops) {}
  /// Measures x. Returns the slot of the result, which is available after the next fetch.
  Slot measure(const Tensor& x, const StatisticsRequest& request);
  /// Adds squares that were computed elsewhere, as an f64 tensor [1, n].
  Slot squares(Tensor numbers);
  void fetch();
  /// Throws std::out_of_range for a slot that has not been fetched.
  [[nodiscard]] const SignalStatistics& operator[](Slot slot) const { return fetched_.at(slot); }

 private:
  const Backend* ops_;
  std::vector<Tensor> numbers_;  // results not yet fetched, on the device
  std::vector<StatisticsLayout> layouts_;
  std::vector<SignalStatistics> fetched_;
};

}  // namespace periscope
