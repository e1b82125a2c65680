#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "sim/core/tensor.h"
#include "sim/spec/profile.h"

namespace periscope {

class Backend;

/// Statistics of every row of a tensor [N, D], accumulated in double, two-pass: those of row_statistics. The maximum is
/// NaN if an element is.
struct RowMoments {
  std::array<std::vector<double>, row_statistics.size()> values;  ///< by row
  [[nodiscard]] const std::vector<double>& operator[](Statistic s) const { return values.at(row_statistic(s)); }
};

/// An element of a tensor, and where it stands.
struct Entry {
  Tensor::Index row;
  Tensor::Index col;
  double value;  ///< with its sign

  bool operator==(const Entry&) const = default;
};

/// The statistics to measure of a signal x [N, D].
struct StatisticsRequest {
  bool moments = false;         ///< RowMoments
  bool squares = false;         ///< Σ_j x_ij² of every row
  Tensor dots_with = {};        ///< y [N, D]: Σ_j x_ij y_ij of every row
  int cosine_of_sequences = 0;  ///< token cosine, of this many sequences
  int top_magnitudes = 0;       ///< how many
  int top_entries = 0;          ///< how many
  bool median_magnitude = false;
  bool column_maxima = false;
};

/// The statistics of a signal. Fields that were not requested are empty or NaN.
struct SignalStatistics {
  RowMoments rows;
  std::vector<double> squares;  ///< by row
  std::vector<double> dots;     ///< by row
  /// Cosine of two rows, mean over the pairs of distinct rows of one sequence, then over sequences:
  /// (‖Σ_t x_t/‖x_t‖‖² − T) / (T (T−1)). NaN for T = 1 or a zero row.
  double token_cosine;
  /// The largest |x_ij|, in descending order (fewer if the tensor is smaller); NaN counts as infinite.
  std::vector<double> top_magnitudes;
  /// The elements with the largest |x_ij|, in descending order, equal ones in the order of rows and columns (fewer if
  /// the tensor is smaller); NaN counts as infinite.
  std::vector<Entry> top_entries;
  /// The median of |x_ij|, of an even number the mean of the two in the middle; NaN counts as infinite.
  double median_magnitude;
  std::vector<double> column_maxima;  ///< max_i |x_ij| of every column; NaN counts as infinite
};

/// Offsets of the numbers of one request in the f64 tensor [1, size] of all of them.
struct StatisticsLayout {
  StatisticsLayout(const Tensor& x, const StatisticsRequest& request);
  /// The layout of squares alone.
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

  /// `numbers` are the tensor's values on the host.
  [[nodiscard]] SignalStatistics read(const std::vector<double>& numbers) const;
};

/// The statistics of one pass. They stay on the device until `fetch` brings all to the host in one transfer.
class StatisticsRecord {
 public:
  using Slot = std::size_t;

  /// `ops` outlives the record.
  explicit StatisticsRecord(const Backend& ops) : ops_(&ops) {}
  /// Measures x; read the result from the slot after the next fetch.
  Slot measure(const Tensor& x, const StatisticsRequest& request);
  /// Adds squares that were measured elsewhere: f64 [1, n].
  Slot squares(Tensor numbers);
  void fetch();
  /// Throws std::out_of_range for a slot that was not fetched.
  [[nodiscard]] const SignalStatistics& operator[](Slot slot) const { return fetched_.at(slot); }

 private:
  const Backend* ops_;
  std::vector<Tensor> numbers_;  // of the slots that were not yet fetched, on the device
  std::vector<StatisticsLayout> layouts_;
  std::vector<SignalStatistics> fetched_;
};

}  // namespace periscope
