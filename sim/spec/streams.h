#pragma once

#include <cstdint>

#include "sim/spec/signal.h"
#include "sim/spec/weight.h"

/// The registry of random streams: all numbers that distinguish streams.
namespace periscope {

/// The purpose of a random stream. The numbers are part of the generator's counter: never renumber, never use one twice
/// (tests/random/streams_test.cpp would not compile).
enum class Stream : std::uint32_t {
  // 0 … 99: the matrices, see stream_of
  input = 100,
  common_input = 101,
  token_ids = 102,
  labels = 103,
  batches = 104,        ///< places of training windows; `layer` is the step
  language_laws = 105,  ///< of the synthetic language, and its text
  language_text = 106,
  // 300 … 399 and 400 … 499: what matrix-free weights draw, see matrix_free_forward and matrix_free_back
  // 500 … 599: biases, where scales say that there are any, see bias_stream
  attack_start = 200,  ///< certify's gradient ascent; `layer` is the restart
  attack_ids = 201,    ///< certify's search over token ids; `layer` is the restart
  verify_case = 1000,  ///< `layer` is the number of the case, likewise below
  verify_attack = 1001,
  verify_massive = 1002,
  soundness_checkpoint = 1003,
  soundness_run = 1004,
  // 4000 … 4999: stochastic rounding, see rounding_stream
};

[[nodiscard]] constexpr Stream stream_of(Weight weight) { return Stream{static_cast<std::uint32_t>(weight)}; }

/// The streams that a matrix-free matrix draws in the forward and in the backward pass (sim/model/matrix_free.h).
[[nodiscard]] constexpr Stream matrix_free_forward(Weight weight) {
  return Stream{300 + static_cast<std::uint32_t>(weight)};
}
[[nodiscard]] constexpr Stream matrix_free_back(Weight weight) {
  return Stream{400 + static_cast<std::uint32_t>(weight)};
}

/// The bias of a matrix or norm; `layer` of the key is the sublayer.
[[nodiscard]] constexpr Stream bias_stream(Weight weight) { return Stream{500 + static_cast<std::uint32_t>(weight)}; }

/// Tensors that are rounded stochastically: a signal or its gradient; a matrix or gain, its bias, and the matrix's
/// input.
enum class Rounded : std::uint32_t { signal, gradient, weight, bias, input };

/// `layer` of the key is the sublayer + 1.
[[nodiscard]] constexpr Stream rounding_stream(Signal signal, Rounded what) {
  return Stream{4000 + 100 * static_cast<std::uint32_t>(what) + static_cast<std::uint32_t>(signal)};
}
[[nodiscard]] constexpr Stream rounding_stream(Weight weight, Rounded what) {
  return Stream{4500 + 100 * static_cast<std::uint32_t>(what) + static_cast<std::uint32_t>(weight)};
}

/// Distinct keys give independent streams: layer and stream are part of the generator's counter, the seed is its key.
struct StreamKey {
  std::uint64_t seed;
  std::uint32_t layer;
  Stream stream;
};

/// Theory draws from another generator (Threefry), with seed and replicate as two words of its key. The third is a
/// place: below 2³² a sublayer of the finite-width chain (T25), else a sum of these.
namespace theory::place {

inline constexpr std::uint64_t input = std::uint64_t{1} << 32U;  ///< what T25's chain draws before the first sublayer
inline constexpr std::uint64_t table = input + 1;                ///< the rows of a projected table
inline constexpr std::uint64_t patterns = std::uint64_t{1} << 48U;       ///< attention patterns, plus the sublayer
inline constexpr std::uint64_t backward_pass = std::uint64_t{1} << 47U;  ///< of patterns: those of the backward chain
inline constexpr std::uint64_t other_half = std::uint64_t{1}
                                            << 32U;               ///< of patterns: the second of two independent sets
inline constexpr std::uint64_t logits = std::uint64_t{1} << 33U;  ///< of the backward pass: the logits of the loss

}  // namespace theory::place
}  // namespace periscope
