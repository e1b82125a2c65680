#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/model/context.h"
#include "sim/spec/model_spec.h"
#include "theory/certify/certificate.h"

namespace periscope::stacks {

/// Returns true if a bound is proportional to c when the stream is scaled by c (sim/model/scaled_weights.h).
bool grows_with_stream(const ModelSpec& model, const theory::SignalBound& bound);

/// Largest bounds of a certificate that grow with the scale factors of a stack.
struct GrowingBounds {
  double stream = 0.0;  ///< largest bound that grows with c, the scale of the stream
  double branch = 0.0;  ///< largest bound that grows with k, the scale of norm B's inputs; 0 if no norm B exists
};
GrowingBounds growing_bounds(const ModelSpec& model, const theory::Certificate& certificate);

/// Returns "layers.1.mlp.up.weight: entry 3 = 70000 exceeds the format's largest number 65504".
std::string weight_words(const theory::WeightEntry& weight, double largest);

/// Returns the largest power of two ≤ x. Multiplying by it is exact.
double power_of_two_below(double x);

/// Returns 32 random token ids, or fewer if the model has fewer positions.
std::vector<int> random_token_ids(const ModelSpec& model, std::uint64_t seed);

/// Returns the logits of every token; without an unembedding, the stack's output.
std::vector<double> logits_of(const StackContext& context, std::span<const int> ids);

/// Returns max |a − b| / max |a|; infinity if a difference is NaN.
double relative_difference(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace periscope::stacks
