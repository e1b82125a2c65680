#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "experiments/engine/run/weight_scales_of.h"
#include "sim/model/weights.h"

namespace periscope::stacks {

/// A null model: random weights that match given weights only in the sizes of their entries (T29); see `meaning`.
struct SizeNull {
  std::string_view name;
  std::optional<PreservedSizes> preserved;  ///< nullopt: every |W_ij|, which is simulated but not predicted
  std::string_view meaning;
};

/// All null models, from coarsest to finest.
inline constexpr std::array<SizeNull, 4> size_nulls{
    {{"matrices", PreservedSizes::matrices, "the same root mean square of every matrix"},
     {"rows", PreservedSizes::rows, "the same root mean square of every row"},
     {"rank_one", PreservedSizes::rows_and_columns,
      "the same root mean square of every row and column (rank-one profiles)"},
     {"signs", std::nullopt, "the same |W_ij| and random signs"}}};

/// Indices into size_nulls. The differences between these null models are reported as parts of the growth.
inline constexpr std::size_t matrices_null = 0;
inline constexpr std::size_t rank_one_null = 2;

/// Logarithms of the stream's second moment, averaged over tokens, at depths 0 … 2L, for samples of a null model with
/// the given weights' shapes and input tokens.
struct NullDraws {
  std::vector<std::vector<double>> log_moment = {};  ///< [draws][2L + 1]

  /// Returns the mean over samples at a depth; NaN if there are none.
  [[nodiscard]] double mean(std::size_t depth) const;
  /// Returns the root mean square over samples of the logarithm minus `centre`: the spread of samples and, if `centre`
  /// is the infinite-width limit, the bias due to finite width. NaN if there are no samples.
  [[nodiscard]] double deviation_from(double centre, std::size_t depth) const;
  /// Returns the standard deviation of a new sample's logarithm about the mean of n samples: the sample standard
  /// deviation times √(1 + 1/n). NaN for fewer than two samples.
  [[nodiscard]] double deviation_from_mean(std::size_t depth) const;
};

/// Returns the logarithm of the stream's second moment, averaged over tokens, at depths 0 … 2L, from one forward pass
/// without the head. `ids` are `sequences` concatenated sequences of equal length.
[[nodiscard]] std::vector<double> log_second_moments(const Backend& ops, const ModelSpec& model,
                                                     const WeightSource& weights, std::span<const int> ids,
                                                     int sequences);

/// Measures samples first … first + draws − 1 of a null model: GeneratedWeights with the scales of `weights`, or
/// RandomSigns. Calls `before_each` before every sample; an exception from it stops sampling.
[[nodiscard]] NullDraws draw_null(
    const Backend& ops, const StackSpec& spec, const WeightSource& weights, std::span<const int> ids, int sequences,
    const SizeNull& null, DType dtype, std::uint64_t first, int draws,
    const std::function<void()>& before_each = [] {});

/// Returns `spec` with the scales of `weights` that a null model preserves.
[[nodiscard]] StackSpec with_scales_of(const Backend& ops, StackSpec spec, const WeightSource& weights,
                                       std::span<const int> ids, PreservedSizes preserved);

/// Another source's weights with random signs: the finest null model (T29). Matrices, tables and biases get the signs
/// of GeneratedWeights with the same seed; gains are unchanged. The source and the backend must outlive this object.
class RandomSigns final : public WeightSource {
 public:
  RandomSigns(const Backend& backend, const WeightSource& source, std::uint64_t seed)
      : backend_(backend), source_(source), seed_(seed) {}

  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  /// Equal ids have the same signs.
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override;

 private:
  const Backend& backend_;
  const WeightSource& source_;
  std::uint64_t seed_;
};

}  // namespace periscope::stacks
