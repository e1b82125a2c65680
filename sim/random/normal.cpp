#include "sim/random/normal.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "sim/random/philox.h"
#include "sim/random/unit_normal.h"

namespace periscope {

void unit_normals(std::span<const std::uint32_t> words, std::span<float> out) {
  const std::uint32_t* const word = words.data();
  float* const z = out.data();
  const std::size_t count = std::min(words.size(), out.size());
  for (std::size_t i = 0; i < count; ++i) z[i] = unit_normal(word[i]);
}

template <class T>
void fill_normal(StreamKey key, std::uint64_t first, double stddev, std::span<T> out) {
  if (!out.empty() && first + (out.size() - 1) < first)
    throw std::length_error("random stream is longer than 2^64 numbers");
  std::array<std::uint32_t, 256> words;
  std::array<float, 256> unit;
  for (std::size_t done = 0; done < out.size();) {
    const std::uint64_t begin = first + done;
    const std::size_t skipped = begin % 4;
    const std::size_t count = std::min(words.size() - skipped, out.size() - done);
    const std::size_t drawn = (skipped + count + 3) / 4 * 4;
    philox_words(key, begin / 4, std::span(words).first(drawn));
    unit_normals(std::span(words).first(drawn), unit);
    for (std::size_t i = 0; i < count; ++i) {
      out[done + i] = static_cast<T>(stddev * static_cast<double>(unit[skipped + i]));
    }
    done += count;
  }
}

template void fill_normal<double>(StreamKey, std::uint64_t, double, std::span<double>);
template void fill_normal<float>(StreamKey, std::uint64_t, double, std::span<float>);

}  // namespace periscope
