#include "sim/train/synthetic_language.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "sim/random/philox.h"

namespace periscope {
namespace {

constexpr int symbol_count = SyntheticLanguage::symbols;
constexpr auto alphabet = static_cast<std::size_t>(symbol_count);

/// Returns a uniform number in [0, 1).
double uniform(PhiloxEngine& engine) { return 0x1p-32 * engine(); }

/// Adds ½ times a Zipf distribution over the symbols, whose order is drawn from the engine.
void add_law(PhiloxEngine& engine, double* chances) {
  std::array<int, alphabet> order{};
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = alphabet - 1; i > 0; --i) {  // Fisher–Yates shuffle
    std::swap(order[i], order[static_cast<std::size_t>(uniform(engine) * static_cast<double>(i + 1))]);
  }
  double sum = 0.0;
  for (int rank = 1; rank <= symbol_count; ++rank) sum += 1.0 / (rank * rank);
  for (int rank = 1; rank <= symbol_count; ++rank) {
    chances[order[static_cast<std::size_t>(rank - 1)]] += 0.5 / (rank * rank) / sum;
  }
}

double entropy(const double* chances) {
  double sum = 0.0;
  for (int c = 0; c < symbol_count; ++c) sum -= chances[c] > 0.0 ? chances[c] * std::log(chances[c]) : 0.0;
  return sum;
}

/// Returns the symbol whose interval of the cumulative distribution contains `number` in [0, 1).
int symbol_at(const double* cumulated, double number) {
  return static_cast<int>(std::min<std::ptrdiff_t>(
      symbol_count - 1, std::upper_bound(cumulated, cumulated + symbol_count, number) - cumulated));
}

}  // namespace

SyntheticLanguage::SyntheticLanguage()
    : next_(alphabet * alphabet * alphabet), pairs_(alphabet * alphabet, 1.0 / (symbol_count * symbol_count)) {
  PhiloxEngine laws({0, 0, Stream::language_laws});
  std::vector<double> by_last(alphabet * alphabet);
  for (int b = 0; b < symbol_count; ++b) add_law(laws, by_last.data() + place(0, b));
  for (int a = 0; a < symbol_count; ++a) {
    for (int b = 0; b < symbol_count; ++b) {
      double* chances = next_.data() + place(a, b);
      std::copy_n(by_last.data() + place(0, b), symbol_count, chances);
      add_law(laws, chances);
    }
  }
  // Every symbol follows every pair with probability at least 1/3300, so the iteration converges quickly.
  for (double change = 1.0; change > 1e-15;) {
    std::vector<double> after(pairs_.size(), 0.0);
    for (int a = 0; a < symbol_count; ++a) {
      for (int b = 0; b < symbol_count; ++b) {
        for (int c = 0; c < symbol_count; ++c) {
          after[static_cast<std::size_t>(b * symbol_count + c)] += chance(a, b) * chance(a, b, c);
        }
      }
    }
    change = 0.0;
    for (std::size_t i = 0; i < after.size(); ++i) change = std::max(change, std::abs(after[i] - pairs_[i]));
    pairs_ = std::move(after);
  }
  for (int b = 0; b < symbol_count; ++b) {
    std::array<double, alphabet> mixture{};
    double total = 0.0;
    for (int a = 0; a < symbol_count; ++a) {
      total += chance(a, b);
      rate_ += chance(a, b) * entropy(next_.data() + place(a, b));
      for (int c = 0; c < symbol_count; ++c) mixture[static_cast<std::size_t>(c)] += chance(a, b) * chance(a, b, c);
    }
    for (double& x : mixture) x /= total;
    after_one_ += total * entropy(mixture.data());
  }
}

std::vector<std::uint8_t> SyntheticLanguage::text(std::size_t length) const {
  std::vector<double> cumulated = next_;
  for (std::size_t first = 0; first < cumulated.size(); first += alphabet) {
    std::partial_sum(cumulated.begin() + static_cast<std::ptrdiff_t>(first),
                     cumulated.begin() + static_cast<std::ptrdiff_t>(first + alphabet),
                     cumulated.begin() + static_cast<std::ptrdiff_t>(first));
  }
  std::vector<double> starts(pairs_.size());
  std::partial_sum(pairs_.begin(), pairs_.end(), starts.begin());
  PhiloxEngine draws({0, 0, Stream::language_text});
  const auto pair = static_cast<int>(
      std::min<std::ptrdiff_t>(symbol_count * symbol_count - 1,
                               std::upper_bound(starts.begin(), starts.end(), uniform(draws)) - starts.begin()));
  int a = pair / symbol_count;
  int b = pair % symbol_count;
  std::vector<std::uint8_t> text(length);
  for (std::uint8_t& symbol : text) {
    symbol = static_cast<std::uint8_t>(a);
    const int c = symbol_at(cumulated.data() + place(a, b), uniform(draws));
    a = b;
    b = c;
  }
  return text;
}

}  // namespace periscope
