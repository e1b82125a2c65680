#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/model/context.h"
#include "sim/spec/model_spec.h"
#include "theory/certify/certificate.h"

namespace periscope::stacks {

/// True if a bound grows with c in a stack whose stream is c times as large (sim/model/scaled_weights.h).
bool grows_with_stream(const ModelSpec& model, const theory::SignalBound& bound);

/// The largest bounds that grow with c, and that grow with k, the scale of norm B's inputs; 0 without norms B.
struct GrowingBounds {
  double stream = 0.0;
  double branch = 0.0;
};
GrowingBounds growing_bounds(const ModelSpec& model, const theory::Certificate& certificate);

/// Returns "layers.1.mlp.up.weight: entry 3 is 70000, beyond the format's largest number 65504".
std::string weight_words(const theory::WeightEntry& weight, double largest);

/// The largest power of two up to x: multiplying by it rounds nothing.
double power_of_two_below(double x);

/// Random token ids: 32, or as many as the model has positions.
std::vector<int> random_token_ids(const ModelSpec& model, std::uint64_t seed);

/// The logits of every token, or the output of a stack without an unembedding.
std::vector<double> logits_of(const StackContext& context, std::span<const int> ids);

/// max |a − b| / max |a|; infinite if a difference is NaN.
double relative_difference(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace periscope::stacks
