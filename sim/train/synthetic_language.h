#pragma once

#include <cstdint>
#include <vector>

namespace periscope {

/// A language of known entropy: a stationary Markov chain over 32 symbols. The next symbol c depends on the last two, a
/// and b, by p(c|a,b) = ½ p₁(c|b) + ½ p₂(c|a,b). Each p₁(·|b) and p₂(·|a,b) is a Zipf distribution with exponent 2 over
/// a separate random order of the symbols. The orders are fixed, so the language is always the same. Models learn p₁
/// first; p₂ requires attention to the token before the last one.
class SyntheticLanguage {
 public:
  static constexpr int symbols = 32;

  SyntheticLanguage();

  /// Probability of c after a and b.
  [[nodiscard]] double chance(int a, int b, int c) const { return next_[place(a, b) + static_cast<std::size_t>(c)]; }
  /// Stationary probability of the pair a, b.
  [[nodiscard]] double chance(int a, int b) const { return pairs_[static_cast<std::size_t>(a * symbols + b)]; }
  /// Smallest mean loss in nats of any predictor over `tokens` labels: (H(c|b) + (tokens − 1)·H(c|a,b))/tokens. The
  /// first label is predicted from one symbol, the others from two or more.
  [[nodiscard]] double loss_floor(int tokens) const { return rate_ + (after_one_ - rate_) / tokens; }
  /// Returns the first `length` symbols of a text that is always the same.
  [[nodiscard]] std::vector<std::uint8_t> text(std::size_t length) const;

 private:
  [[nodiscard]] static std::size_t place(int a, int b) {
    return static_cast<std::size_t>((a * symbols + b)) * static_cast<std::size_t>(symbols);
  }

  std::vector<double> next_;   // p(c|a,b) [a, b, c]
  std::vector<double> pairs_;  // stationary p(a,b) [a, b]
  double rate_ = 0.0;          // H(c|a,b), the entropy rate
  double after_one_ = 0.0;     // H(c|b)
};

}  // namespace periscope
