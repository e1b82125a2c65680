#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace periscope {

/// Tokens to train on, one byte each, and tokens to look at, which are never trained on: the last share of them.
class Corpus {
 public:
  /// The most bytes that are read: offsets are drawn as int.
  static constexpr std::size_t most = 0x7fff'ffff;

  /// `path`: a file, or a folder, whose regular files at all depths are read in the order of their names, or
  /// "synthetic". Throws InputError, which names what cannot be read, for special files, for more than `most` bytes,
  /// for a byte that is no token below `vocab`, and for a part that has no `window` tokens.
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

/// The batch of step 1, 2, …: windows of the training part at independent, uniformly distributed places, which depend
/// on seed and step alone. All placements of one seed read the same.
[[nodiscard]] Windows training_batch(const Corpus& corpus, int length, int batch, std::uint64_t seed, int step);

/// `count` windows of the validation part, evenly spaced: the same for every seed.
[[nodiscard]] Windows held_out(const Corpus& corpus, int length, int count);

}  // namespace periscope
