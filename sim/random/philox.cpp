#include "sim/random/philox.h"

#include <boost/random/normal_distribution.hpp>
#include <boost/random/uniform_int_distribution.hpp>

#include <algorithm>
#include <stdexcept>

namespace periscope {

void PhiloxEngine::refill() {
  r123::Philox4x32 bijection;
  for (Counter& words : words_) {
    words = bijection(next_, key_);
    ++next_[0];
  }
  used_ = 0;
}

PhiloxEngine engine_of(StreamKey key, std::uint64_t block) {
  if (block >> 32U != 0) throw std::length_error("random stream is longer than 2^42 numbers");
  return PhiloxEngine({{0, static_cast<std::uint32_t>(block), key.layer, key.tensor}},
                      {{static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32U)}});
}

template <class T>
void fill_normal(StreamKey key, std::uint64_t first, double stddev, std::span<T> out) {
  if (first % normal_block != 0) throw std::logic_error("fill_normal must start at a block");
  for (std::uint64_t begin = 0; begin < out.size(); begin += normal_block) {
    PhiloxEngine engine = engine_of(key, (first + begin) / normal_block);
    boost::random::normal_distribution<double> unit(0.0, 1.0);
    const std::uint64_t end = std::min<std::uint64_t>(begin + normal_block, out.size());
    for (std::uint64_t i = begin; i < end; ++i) out[i] = static_cast<T>(stddev * unit(engine));
  }
}

template void fill_normal<double>(StreamKey, std::uint64_t, double, std::span<double>);
template void fill_normal<float>(StreamKey, std::uint64_t, double, std::span<float>);

void fill_uniform_int(StreamKey key, int bound, std::span<int> out) {
  PhiloxEngine engine = engine_of(key, 0);
  boost::random::uniform_int_distribution<int> uniform(0, bound - 1);
  for (int& value : out) value = uniform(engine);
}

}  // namespace periscope
