#pragma once

#include <cstdint>
#include <vector>

namespace periscope {

/// A language whose entropy is known: a stationary Markov chain over 32 symbols in which the next symbol c depends on
/// the last two, a and b, by p(c|a,b) = ½ p₁(c|b) + ½ p₂(c|a,b). Each p₁(·|b) and p₂(·|a,b) is Zipf's law with
/// exponent 2, its symbols in an order of their own that is drawn once and for all: the language is always the same.
/// What a model learns first is p₁; for p₂ it has to attend to the token before the last one.
class SyntheticLanguage {
 public:
  static constexpr int symbols = 32;

  SyntheticLanguage();

  /// The chance of c after a and b.
  [[nodiscard]] double chance(int a, int b, int c) const { return next_[place(a, b) + static_cast<std::size_t>(c)]; }
  /// The stationary chance of the pair a, b.
  [[nodiscard]] double chance(int a, int b) const { return pairs_[static_cast<std::size_t>(a * symbols + b)]; }
  /// The smallest mean loss in nat of any predictor over `tokens` labels, the first of which it has to predict from one
  /// symbol and the others from two or more: (H(c|b) + (tokens − 1)·H(c|a,b))/tokens.
  [[nodiscard]] double loss_floor(int tokens) const { return rate_ + (after_one_ - rate_) / tokens; }
  /// The beginning of the language's one text, `length` symbols.
  [[nodiscard]] std::vector<std::uint8_t> text(std::size_t length) const;

 private:
  [[nodiscard]] static std::size_t place(int a, int b) {
    return static_cast<std::size_t>((a * symbols + b)) * static_cast<std::size_t>(symbols);
  }

  std::vector<double> next_;   // [symbols, symbols, symbols]
  std::vector<double> pairs_;  // [symbols, symbols]
  double rate_ = 0.0;
  double after_one_ = 0.0;
};

}  // namespace periscope
