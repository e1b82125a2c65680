#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace periscope {

/// Tokens, one byte each, with a held-out split at the end.
class Corpus {
 public:
  /// The most bytes that are read: offsets are drawn as int.
  static constexpr std::size_t most = 0x7fff'ffff;

  /// `path`: a file, a folder, whose files at all depths are read in the order of their names, or "synthetic". Throws
  /// InputError for unreadable and special files, more than `most` bytes, a byte of at least `vocab`, and a split of
  /// less than `window` tokens.
  Corpus(const std::string& path, double validation, int window, int vocab);

  [[nodiscard]] std::span<const std::uint8_t> tokens() const { return tokens_; }
  [[nodiscard]] std::span<const std::uint8_t> training() const { return tokens().first(training_); }
  [[nodiscard]] std::span<const std::uint8_t> validation() const { return tokens().subspan(training_); }
  /// The smallest mean loss that any predictor can have over windows of that many labels, if it is known.
  [[nodiscard]] std::optional<double> loss_floor(int labels) const;

 private:
  std::vector<std::uint8_t> tokens_;
  std::size_t training_ = 0;
  bool synthetic_ = false;
};

/// Windows of T + 1 tokens each, one after the other: the first T of each are inputs, the last T their labels.
struct Windows {
  std::vector<int> tokens;  ///< [count, T + 1]
  int length;               ///< T + 1

  [[nodiscard]] int count() const { return static_cast<int>(tokens.size()) / length; }
  /// Returns the inputs of windows first … first + count − 1 [count · T].
  [[nodiscard]] std::vector<int> inputs(int first, int count) const;
  [[nodiscard]] std::vector<int> labels(int first, int count) const;
};

/// The batch of step 1, 2, …: windows of the training split at independent, uniform places, which depend on seed and
/// step alone.
[[nodiscard]] Windows training_batch(const Corpus& corpus, int length, int batch, std::uint64_t seed, int step);

/// `count` windows of the validation part, evenly spaced: the same for every seed.
[[nodiscard]] Windows held_out(const Corpus& corpus, int length, int count);

}  // namespace periscope
