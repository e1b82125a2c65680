#include "sim/spec/stream_mixing.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>

namespace periscope {
namespace {

using Square = std::vector<std::vector<double>>;

/// Sinkhorn's iteration from positive entries; it converges geometrically, and stops where doubles no longer change
/// much.
void make_doubly_stochastic(Square& h) {
  constexpr int iterations = 200;
  const std::size_t n = h.size();
  for (int k = 0; k < iterations; ++k) {
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0.0;
      for (std::size_t i = 0; i < n; ++i) sum += h[i][j];
      for (std::size_t i = 0; i < n; ++i) h[i][j] /= sum;
    }
    for (std::vector<double>& row : h) {
      double sum = 0.0;
      for (const double x : row) sum += x;
      for (double& x : row) x /= sum;
    }
  }
}

}  // namespace

std::vector<std::vector<double>> mixing_matrix(StreamMixing mixing, int streams, int index) {
  const auto n = static_cast<std::size_t>(streams);
  Square h(n, std::vector<double>(n, mixing == StreamMixing::uniform ? 1.0 / streams : 0.0));
  if (mixing == StreamMixing::identity) {
    for (std::size_t i = 0; i < n; ++i) h[i][i] = 1.0;
  }
  if (mixing == StreamMixing::random) {
    std::mt19937_64 engine(static_cast<std::uint64_t>(index) + 1);
    for (std::vector<double>& row : h) {
      for (double& x : row) x = std::exp(4.0 * (static_cast<double>(engine() >> 11U) * 0x1p-53) - 2.0);
    }
    make_doubly_stochastic(h);
  }
  return h;
}

}  // namespace periscope
