#include "sim/model/weights.h"

namespace periscope {

Tensor GeneratedWeights::matrix(int layer, Weight weight) const {
  const auto [fan_out, fan_in] = shape_of(spec_.model, weight);
  const StreamKey key{seed_, static_cast<std::uint32_t>(layer), static_cast<std::uint32_t>(weight)};
  return backend_.normal(fan_out, fan_in, dtype_, key, stddev_of(spec_, weight));
}

NormWeights GeneratedWeights::norm(int /*sublayer*/, NormSite site) const {
  const ModelSpec& m = spec_.model;
  if (site == NormSite::q || site == NormSite::k) {
    const int heads = site == NormSite::q ? m.heads : m.kv_heads;
    const int width = m.qk_norm == QkNorm::full ? heads * m.head_dim : m.head_dim;
    return {.gain = backend_.constant(1, width, dtype_, 1.0), .bias = {}};
  }
  const int width = site == NormSite::head ? m.embedding_width() : m.width;
  NormWeights weights{.gain = backend_.constant(1, width, dtype_, m.gamma), .bias = {}};
  if (m.norm == NormKind::layer) weights.bias = backend_.constant(1, width, dtype_, 0.0);
  return weights;
}

}  // namespace periscope
