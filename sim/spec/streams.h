#pragma once

#include <cstdint>

#include "sim/spec/signal.h"
#include "sim/spec/weight.h"

/// Registry of random streams and their numbers.
namespace periscope {

/// Purpose of a random stream. The numbers are part of the generator's counter: never renumber or reuse one
/// (otherwise tests/random/streams_test.cpp does not compile).
enum class Stream : std::uint32_t {
  // 0 … 99: matrices, see stream_of
  input = 100,
  common_input = 101,
  token_ids = 102,
  labels = 103,
  batches = 104,        ///< positions of training windows; `layer` is the step
  language_laws = 105,  ///< transition probabilities of the synthetic language; for its text, see language_text
  language_text = 106,
  // 300 … 399 and 400 … 499: products of matrix-free weights, see matrix_free_forward and matrix_free_backward
  // 500 … 599: biases of stacks with weight scales, see bias_stream
  attack_start = 200,  ///< gradient ascent of `certify`; `layer` is the restart
  attack_ids = 201,    ///< search over token ids in `certify`; `layer` is the restart
  verify_case = 1000,  ///< `layer` is the index of the case, also in the streams below
  verify_attack = 1001,
  verify_massive = 1002,
  soundness_checkpoint = 1003,
  soundness_run = 1004,
  // 4000 … 4999: stochastic rounding, see rounding_stream
};

[[nodiscard]] constexpr Stream stream_of(Weight weight) { return Stream{static_cast<std::uint32_t>(weight)}; }

/// Streams for the forward and backward products of a matrix-free weight matrix (sim/model/matrix_free.h).
[[nodiscard]] constexpr Stream matrix_free_forward(Weight weight) {
  return Stream{300 + static_cast<std::uint32_t>(weight)};
}
[[nodiscard]] constexpr Stream matrix_free_backward(Weight weight) {
  return Stream{400 + static_cast<std::uint32_t>(weight)};
}

/// Stream of the bias of a matrix or norm; `layer` of the key is the sublayer.
[[nodiscard]] constexpr Stream bias_stream(Weight weight) { return Stream{500 + static_cast<std::uint32_t>(weight)}; }

/// Kinds of stochastically rounded tensors. A matrix or gain has streams for itself, its bias and its input.
enum class Rounded : std::uint32_t { signal, gradient, weight, bias, input };

/// Streams of stochastic rounding; `layer` of the key is the sublayer + 1.
[[nodiscard]] constexpr Stream rounding_stream(Signal signal, Rounded kind) {
  return Stream{4000 + 100 * static_cast<std::uint32_t>(kind) + static_cast<std::uint32_t>(signal)};
}
[[nodiscard]] constexpr Stream rounding_stream(Weight weight, Rounded kind) {
  return Stream{4500 + 100 * static_cast<std::uint32_t>(kind) + static_cast<std::uint32_t>(weight)};
}

/// Distinct keys give independent streams: layer and stream are part of the generator's counter, the seed is its key.
struct StreamKey {
  std::uint64_t seed;
  std::uint32_t layer;
  Stream stream;
};

/// Theory draws from a different generator (Threefry), whose key consists of seed, replicate and a place. Places below
/// 2³² are sublayers of the finite-width chain (T25); others are sums of the constants below.
namespace theory::place {

// Finite-width chain: draws before the first sublayer, and rows of a projected embedding table.
inline constexpr std::uint64_t input = std::uint64_t{1} << 32U;
inline constexpr std::uint64_t table = input + 1;
// Attention patterns: `patterns` plus the sublayer, plus `backward_pass` and `second_set` (independent) if they apply.
inline constexpr std::uint64_t patterns = std::uint64_t{1} << 48U;
inline constexpr std::uint64_t backward_pass = std::uint64_t{1} << 47U;
inline constexpr std::uint64_t second_set = std::uint64_t{1} << 32U;
inline constexpr std::uint64_t logits = std::uint64_t{1} << 33U;  ///< added to `backward_pass` for the loss's logits

}  // namespace theory::place
}  // namespace periscope
