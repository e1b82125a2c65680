#include "sim/train/synthetic_language.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "tests/support/doctest.h"
#include "tests/support/significance.h"

namespace periscope::testing {
namespace {

constexpr int symbol_count = SyntheticLanguage::symbols;
constexpr auto symbols_as_size = static_cast<std::size_t>(symbol_count);

const SyntheticLanguage& language() {
  static const SyntheticLanguage only;
  return only;
}

double entropy(const std::vector<double>& chances) {
  double sum = 0.0;
  for (const double p : chances) sum -= p * std::log(p);
  return sum;
}

TEST_CASE("synthetic language: probabilities sum to 1, and the distribution of pairs is stationary") {
  double pairs = 0.0;
  double spread = 0.0;
  for (int b = 0; b < symbol_count; ++b) {
    for (int c = 0; c < symbol_count; ++c) {
      pairs += language().chance(b, c);
      double sum = 0.0;
      double after = 0.0;
      for (int a = 0; a < symbol_count; ++a) {
        sum += language().chance(b, c, a);
        after += language().chance(a, b) * language().chance(a, b, c);
      }
      CHECK(std::abs(sum - 1.0) < 1e-14);
      CHECK(std::abs(after - language().chance(b, c)) < 1e-14);
      spread = std::max(spread, std::abs(language().chance(b, c) * symbol_count * symbol_count - 1.0));
    }
  }
  CHECK(std::abs(pairs - 1.0) < 1e-12);
  CHECK(spread > 0.5);  // not the uniform distribution
}

TEST_CASE("synthetic language: the loss floor is the mean entropy over a window") {
  double rate = 0.0;
  double after_one = 0.0;
  for (int b = 0; b < symbol_count; ++b) {
    std::vector<double> mixture(symbols_as_size, 0.0);
    double total = 0.0;
    for (int a = 0; a < symbol_count; ++a) {
      std::vector<double> next;
      for (int c = 0; c < symbol_count; ++c) next.push_back(language().chance(a, b, c));
      rate += language().chance(a, b) * entropy(next);
      total += language().chance(a, b);
      for (std::size_t c = 0; c < symbols_as_size; ++c) mixture[c] += language().chance(a, b) * next[c];
    }
    for (double& p : mixture) p /= total;
    after_one += total * entropy(mixture);
  }
  CHECK(after_one > rate + 0.1);
  CHECK(std::log(symbol_count) > after_one + 0.1);
  CHECK(language().loss_floor(1) == approx(after_one).epsilon(1e-12));
  CHECK(language().loss_floor(4) == approx((after_one + 3.0 * rate) / 4.0).epsilon(1e-12));
}

/// Returns the entropy rate from the loss floors of one and two tokens.
double entropy_rate() { return 2.0 * language().loss_floor(2) - language().loss_floor(1); }

/// Returns the beginning of the built-in text.
const std::vector<std::uint8_t>& long_text() {
  static const std::vector<std::uint8_t> text = language().text(1U << 20U);
  return text;
}

TEST_CASE("synthetic language: cross-entropy of the text equals the entropy rate") {
  const std::vector<std::uint8_t>& text = long_text();
  constexpr std::size_t piece = 1U << 10U;  // consecutive pieces are nearly independent
  std::vector<double> rates;
  for (std::size_t first = 2; first + piece <= text.size(); first += piece) {
    double sum = 0.0;
    for (std::size_t t = first; t < first + piece; ++t) {
      sum -= std::log(language().chance(text[t - 2], text[t - 1], text[t]));
    }
    rates.push_back(sum / piece);
  }
  CHECK(estimate(rates).standard_error < 0.003);
  check_consistent("surprisal per symbol", estimate(rates), entropy_rate());
}

TEST_CASE("synthetic language: the text is reproducible, and shorter texts are prefixes") {
  const std::vector<std::uint8_t> text = SyntheticLanguage().text(100);
  CHECK(std::ranges::equal(text, std::span(long_text()).first(100)));
  CHECK(std::vector<int>(text.begin(), text.begin() + 24) ==
        std::vector{13, 31, 18, 2, 1, 14, 20, 11, 3, 26, 17, 21, 10, 12, 9, 15, 22, 15, 29, 24, 7, 9, 11, 29});
  CHECK(language().text(0).empty());
}

}  // namespace
}  // namespace periscope::testing
