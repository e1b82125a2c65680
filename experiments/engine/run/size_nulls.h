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

/// A law of random weights that keeps only the sizes of given weights' entries (T29).
struct SizeNull {
  std::string_view name;
  std::optional<PreservedSizes> kept;  ///< nullopt: every |W_ij|, which is simulated but not predicted
  std::string_view meaning;
};

/// From the coarsest to the finest.
inline constexpr std::array<SizeNull, 4> size_nulls{
    {{"matrices", PreservedSizes::matrices, "every matrix's own root mean square"},
     {"rows", PreservedSizes::rows, "every row's own root mean square"},
     {"rank_one", PreservedSizes::rows_and_columns,
      "variance profiles of rank one: every row's and every column's own"},
     {"signs", std::nullopt, "every |W_ij| its own, with random signs"}}};

/// Indices in size_nulls of the nulls whose differences are the parts of growth.
inline constexpr std::size_t matrices_null = 0;
inline constexpr std::size_t rank_one_null = 2;

/// The logarithm of the stream's second moment at depths 0 … 2L, mean over tokens, over random models of a null at the
/// given weights' own widths, on their tokens.
struct NullDraws {
  std::vector<std::vector<double>> log_moment = {};  ///< [draws][2L + 1]

  /// Returns the mean over the draws at a depth; NaN without draws.
  [[nodiscard]] double mean(std::size_t depth) const;
  /// Returns the root mean square, over the draws, of a model's logarithm minus `centre`. It contains the spread of
  /// models and, if `centre` is the limit of infinite width, the distance of finite width from it. NaN without draws.
  [[nodiscard]] double deviation_from(double centre, std::size_t depth) const;
  /// Returns the standard deviation of a further model's logarithm about the draws' mean: the sample standard deviation
  /// times √(1 + 1/draws). NaN for fewer than two draws.
  [[nodiscard]] double deviation_from_mean(std::size_t depth) const;
};

/// Returns ln of the stream's second moment, averaged over tokens, at depths 0 … 2L, from one forward pass without the
/// head. `ids` are `sequences` concatenated sequences of equal length.
[[nodiscard]] std::vector<double> log_second_moments(const Backend& ops, const ModelSpec& model,
                                                     const WeightSource& weights, std::span<const int> ids,
                                                     int sequences);

/// Runs draws first … first + draws − 1 of a null: GeneratedWeights at the scales of `weights`, or RandomSigns.
/// `before_each` is called before every draw; an exception from it ends the draws.
[[nodiscard]] NullDraws draw_null(
    const Backend& ops, const StackSpec& spec, const WeightSource& weights, std::span<const int> ids, int sequences,
    const SizeNull& null, DType dtype, std::uint64_t first, int draws,
    const std::function<void()>& before_each = [] {});

/// Returns `spec` with the scales of `weights` that a null keeps.
[[nodiscard]] StackSpec with_scales_of(const Backend& ops, StackSpec spec, const WeightSource& weights,
                                       std::span<const int> ids, PreservedSizes kept);

/// Weights of another source with random signs, the finest null of T29. Matrices, tables and biases get the signs of
/// the numbers that GeneratedWeights draws from the same seed; gains are unchanged. The source and the backend must
/// outlive this.
class RandomSigns final : public WeightSource {
 public:
  RandomSigns(const Backend& backend, const WeightSource& source, std::uint64_t seed)
      : backend_(backend), source_(source), seed_(seed) {}

  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  /// Repeated tokens have the same signs.
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override;

 private:
  const Backend& backend_;
  const WeightSource& source_;
  std::uint64_t seed_;
};

}  // namespace periscope::stacks
