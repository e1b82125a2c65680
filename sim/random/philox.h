#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>

#include "sim/spec/streams.h"

namespace periscope {

/// Word i of stream `key` is word i mod 4 of Philox4x32-10 (Salmon et al. 2011) at the counter
/// {⌊i/4⌋ mod 2³², ⌊i/4⌋ div 2³², layer, stream} under the key {seed mod 2³², seed div 2³²}.
/// Writes words 4·first_counter … 4·first_counter + words.size() − 1; words.size() must be a multiple of 4.
void philox_words(StreamKey key, std::uint64_t first_counter, std::span<std::uint32_t> words);

/// Yields the words of a stream in order, as a C++ random bit generator.
class PhiloxEngine {
 public:
  using result_type = std::uint32_t;

  explicit PhiloxEngine(StreamKey key) : key_(key) {}
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()() {
    if (used_ == words_.size()) {
      philox_words(key_, next_, words_);
      next_ += words_.size() / 4;
      used_ = 0;
    }
    return words_[used_++];
  }

 private:
  StreamKey key_;
  std::uint64_t next_ = 0;  // next Philox counter
  std::array<std::uint32_t, 256> words_;
  std::size_t used_ = words_.size();
};

/// Fills `out` with integers uniform on 0 … bound−1.
void fill_uniform_int(StreamKey key, int bound, std::span<int> out);

}  // namespace periscope
