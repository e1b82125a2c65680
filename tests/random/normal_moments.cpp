#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "sim/random/normal.h"

/// Computes the exact moments over all 2³² words and compares them with those stated in sim/random/unit_normal.h.
namespace periscope {
namespace {

struct Moments {
  double second = 0.0, fourth = 0.0;
  long decreases = 0;             ///< number of m whose |z| is smaller than at m - 1
  double largest_decrease = 0.0;  ///< largest decrease, in units in the last place
};

/// Returns the moments over all 2³¹ magnitudes m. Odd moments are 0, since every number occurs with both signs.
Moments all_words() {
  constexpr std::uint32_t piece = 1U << 16U;
  std::vector<std::uint32_t> words(piece);
  std::vector<float> z(piece);
  Moments all;
  float before = 0.0F;
  for (std::uint32_t first = 0; first < 1U << 31U; first += piece) {
    for (std::uint32_t i = 0; i < piece; ++i) words[i] = first + i;
    unit_normals(words, z);
    double second = 0.0, fourth = 0.0;
    for (const float v : z) {
      const double square = static_cast<double>(v) * static_cast<double>(v);
      second += square;
      fourth += square * square;
      if (v < before) {
        ++all.decreases;
        all.largest_decrease =
            std::max(all.largest_decrease, static_cast<double>((before - v) / (std::nextafter(v, HUGE_VALF) - v)));
      }
      before = v;
    }
    all.second += second * 0x1p-31;
    all.fourth += fourth * 0x1p-31;
  }
  return all;
}

int run() {
  const Moments m = all_words();
  fmt::print("second moment 1 {:+.3e}, fourth 3 {:+.3e}; {} decreases of at most {} units in the last place\n",
             m.second - 1.0, m.fourth - 3.0, m.decreases, m.largest_decrease);
  const bool is_as_stated =
      std::abs(m.second - 1.0) < 3e-9 && std::abs(m.fourth - 3.0) < 2e-8 && m.largest_decrease <= 2.0;
  return is_as_stated ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace periscope

int main() { return periscope::run(); }
