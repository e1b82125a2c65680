#include "theory/kernels/normal_stream.h"

#include <Random123/threefry.h>
#include <Random123/conventional/Engine.hpp>

#include <algorithm>
#include <boost/random/chi_squared_distribution.hpp>
#include <cmath>
#include <numbers>

#include "sim/numerics/exact_sqrt.h"

namespace periscope::theory {
namespace {

using Threefry = r123::Threefry4x64;

constexpr int counters_per_batch = 64;
constexpr int words_per_batch = 4 * counters_per_batch;  // a word gives two numbers: radius·(cos, sin)
using Batch = Eigen::Array<float, words_per_batch, 1>;

// Last word of the key: separates the kinds of numbers that share a StreamKey.
constexpr std::uint64_t normal_numbers = 1;
constexpr std::uint64_t signs = 0;
constexpr std::uint64_t chi_squared_numbers = 2;  // each use adds the current counter

}  // namespace

NormalStream::NormalStream(StreamKey stream) : key_{stream.seed, stream.replicate, stream.place, normal_numbers} {}

template <class Real>
void NormalStream::fill(Real* out, Index count) {
  constexpr float ulp = 0x1p-32F;
  const Threefry::key_type key{{key_[0], key_[1], key_[2], key_[3]}};
  std::array<std::uint64_t, words_per_batch> words;
  for (Index done = 0; done < count; done += Index{2} * words_per_batch) {
    for (std::size_t b = 0; b < counters_per_batch; ++b) {
      const auto word = Threefry()({{counter_ + b, 0, 0, 0}}, key);
      for (std::size_t j = 0; j < 4; ++j) words[j * counters_per_batch + b] = word[j];
    }
    counter_ += counters_per_batch;
    Batch radius;
    Batch angle;
    for (int i = 0; i < words_per_batch; ++i) {
      const std::uint64_t word = words[static_cast<std::size_t>(i)];
      radius[i] = static_cast<float>(static_cast<std::uint32_t>(word >> 32U)) * ulp + ulp / 2;
      const auto low = static_cast<std::int32_t>(static_cast<std::uint32_t>(word));
      angle[i] = static_cast<float>(low) * (2 * ulp * std::numbers::pi_v<float>);
    }
    radius = -2.0F * radius.log();
    radius = radius.unaryExpr(exact_sqrt);  // separate, so that Eigen vectorizes log
    const Batch first = radius * angle.cos();
    const Batch second = radius * angle.sin();
    const Index n = std::min<Index>(words_per_batch, count - done);
    for (Index i = 0; i < n; ++i) out[done + i] = first[i];
    const Index rest = std::min<Index>(words_per_batch, count - done - n);
    for (Index i = 0; i < rest; ++i) out[done + n + i] = second[i];
  }
}

template void NormalStream::fill<double>(double* out, Index count);
template void NormalStream::fill<float>(float* out, Index count);

Eigen::MatrixXf NormalStream::signs_float(Index rows, Index cols) {
  constexpr Index bits_of_four_words = 256;
  Eigen::MatrixXf out(rows, cols);
  const Threefry::key_type key{{key_[0], key_[1], key_[2], signs}};
  for (Index done = 0; done < out.size(); done += bits_of_four_words) {
    const auto word = Threefry()({{counter_++, 0, 0, 0}}, key);
    const Index count = std::min(bits_of_four_words, out.size() - done);
    for (Index i = 0; i < count; ++i) {
      const std::uint64_t bit = (word[static_cast<std::size_t>(i / 64)] >> (i % 64)) & 1U;
      out.data()[done + i] = 1.0F - 2.0F * static_cast<float>(bit);
    }
  }
  return out;
}

Matrix NormalStream::wishart_factor(Index size, Index degrees) {
  if (degrees < size) return normals(size, degrees);
  Matrix factor = normals(size, size).triangularView<Eigen::StrictlyLower>();
  r123::Engine<Threefry> engine(Threefry::ukey_type{{key_[0], key_[1], key_[2], chi_squared_numbers + counter_}});
  for (Index i = 0; i < size; ++i) {
    factor(i, i) = std::sqrt(boost::random::chi_squared_distribution<double>(static_cast<double>(degrees - i))(engine));
  }
  return factor;
}

}  // namespace periscope::theory
