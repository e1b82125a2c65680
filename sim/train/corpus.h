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
  /// Maximum number of bytes; offsets are drawn as int.
  static constexpr std::size_t max_bytes = 0x7fff'ffff;

  /// `path` is a file, "synthetic", or a folder, which is read recursively in order of file paths. Throws InputError
  /// for an unreadable or special file, more than `max_bytes` bytes, a byte not below `vocab`, or a split shorter than
  /// `window` tokens.
  Corpus(const std::string& path, double validation, int window, int vocab);

  [[nodiscard]] std::span<const std::uint8_t> tokens() const { return tokens_; }
  [[nodiscard]] std::span<const std::uint8_t> training() const { return tokens().first(training_); }
  [[nodiscard]] std::span<const std::uint8_t> validation() const { return tokens().subspan(training_); }
  /// Smallest possible mean loss over windows of `labels` labels; nullopt if unknown.
  [[nodiscard]] std::optional<double> loss_floor(int labels) const;

 private:
  std::vector<std::uint8_t> tokens_;
  std::size_t training_ = 0;
  bool synthetic_ = false;
};

/// Consecutive windows of T + 1 tokens each. The first T tokens of a window are inputs, the last T their labels.
struct Windows {
  std::vector<int> tokens;  ///< token ids [count, T + 1]
  int length;               ///< tokens per window, T + 1

  [[nodiscard]] int count() const { return static_cast<int>(tokens.size()) / length; }
  /// Returns the inputs of windows first … first + count − 1 [count · T].
  [[nodiscard]] std::vector<int> inputs(int first, int count) const;
  [[nodiscard]] std::vector<int> labels(int first, int count) const;
};

/// Returns the batch of `step` (from 1): windows of the training split at random positions set by seed and step.
[[nodiscard]] Windows training_batch(const Corpus& corpus, int length, int batch, std::uint64_t seed, int step);

/// Returns `count` evenly spaced windows of the validation split, the same for every seed.
[[nodiscard]] Windows held_out(const Corpus& corpus, int length, int count);

}  // namespace periscope
