#pragma once

#include <Random123/philox.h>

#include <array>
#include <cstdint>
#include <limits>
#include <span>

#include "sim/random/stream_key.h"

namespace periscope {

/// Philox4x32-10 (Salmon et al. 2011) as a standard random engine: the words of the counters
/// {0, b, c, d}, {1, b, c, d}, … in order. It exists beside Random123's own Engine because it computes 64
/// counters at a time, which takes two thirds of the time per normal.
class PhiloxEngine {
 public:
  using result_type = std::uint32_t;
  using Counter = r123::Philox4x32::ctr_type;
  using Key = r123::Philox4x32::ukey_type;

  PhiloxEngine(Counter first, Key key) : next_(first), key_(key) {}
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()() {
    if (used_ == 4 * batch) refill();
    const result_type word = words_[used_ / 4][used_ % 4];
    ++used_;
    return word;
  }

 private:
  static constexpr std::size_t batch = 64;
  void refill();

  Counter next_;
  Key key_;
  std::size_t used_ = 4 * batch;
  std::array<Counter, batch> words_;
};

/// Numbers come in blocks of this many, each from an engine of its own, so that any block can be drawn
/// by any thread, or again, without the blocks before it.
inline constexpr std::uint64_t normal_block = 1024;

/// The engine of block `block` of stream `key`: its key is the seed, its first counter {0, block, layer, tensor}.
PhiloxEngine engine_of(StreamKey key, std::uint64_t block);

/// Fills `out` with numbers first … first+out.size()−1 of the stream: N(0, stddev²), drawn in double by
/// Boost's ziggurat and then rounded to T. `first` must be a multiple of normal_block.
template <class T>
void fill_normal(StreamKey key, std::uint64_t first, double stddev, std::span<T> out);

/// `out.size()` whole numbers, uniform on 0 … bound−1.
void fill_uniform_int(StreamKey key, int bound, std::span<int> out);

}  // namespace periscope
