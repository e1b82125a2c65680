#include <fmt/format.h>

#include <algorithm>

#include "theory/norms/norm_law.h"
#include "theory/passes/backward.h"
#include "theory/predict/predict.h"

namespace periscope::theory {
namespace {

/// QK-norm, and so V-norm and the inner norms, divides the gradients of queries and keys by the rms of its n features,
/// and E[1/rms²] = n/(n − 2) of n normal numbers is infinite for n ≤ 2.
std::string few_normed_features(const ModelSpec& m) {
  const auto reason = [](std::string_view what, int features) {
    return fmt::format(
        "{} over {} feature{}: the mean square of a gradient behind it, which goes with the mean of 1/rms^2, is "
        "finite from 3 on",
        what, features, features == 1 ? "" : "s");
  };
  for (int layer = 0; layer < m.layers; ++layer) {
    if (m.qk_norm_at(layer) != QkNorm::none) {
      const int features = m.head_dim * (m.qk_norm_at(layer) == QkNorm::full ? std::min(m.heads, m.kv_heads) : 1);
      if (features <= 2) return reason("QK-norm", features);
    }
    if (m.v_norm_at(layer) && m.head_dim <= 2) return reason("V-norm", m.head_dim);
    const int values = m.kv_heads * m.head_dim;
    if (m.inner_norm_at(2 * layer) && values <= 2) return reason("an inner norm of values", values);
    if (m.inner_norm_at(2 * layer + 1) && m.mlp_width <= 2) return reason("an inner norm", m.mlp_width);
  }
  return {};
}

/// Norm B divides the gradient at its input by the rms of the module's output. Where that is a fixed map of n ≤ 2
/// numbers, its inverse square has no mean either: an MLP of so few hidden channels, and values of so few features of
/// all heads where a token sees itself alone, or others like it.
std::string few_features_of_branch(const StackSpec& spec) {
  const ModelSpec& m = spec.model;
  if (is_pointwise(m.norm)) return {};
  const bool same = spec.input.kind == InputKind::gaussian && spec.input.correlation == 1.0;
  const bool alone = m.causal || spec.input.tokens == 1 || same;
  const auto reason = [](const char* what, int n) {
    return fmt::format("norm B behind {} {}: the mean square of a gradient in front of it is finite from 3 on", what,
                       n);
  };
  for (int l = 0; l < m.sublayers(); ++l) {
    if (!m.rule(l).norm_b) continue;
    const int values = m.kv_heads * m.head_dim;
    if (ModelSpec::is_attention(l) && alone && values <= 2)
      return reason("an attention whose values' features are", values);
    if (!ModelSpec::is_attention(l) && m.mlp_width <= 2) return reason("an MLP whose hidden channels are", m.mlp_width);
  }
  return {};
}

/// Norms and gates inside modules have no law of channels with gains and sizes of their own yet.
std::string inside_unsupported(const StackSpec& spec) {
  const ModelSpec& m = spec.model;
  for (int l = 0; spec.scales != nullptr && l < m.sublayers(); ++l) {
    const int layer = ModelSpec::layer_of(l);
    if (!m.v_norm_at(layer) && !m.inner_norm_at(l) && m.gates_at(layer) == 0) continue;
    return "model.v_norm, model.inner_norm and model.attention_gate are predicted for weights as they are drawn, "
           "not at the sizes of given ones";
  }
  return {};
}

/// Given weights have factors of single channels, and kernels between streams have none.
std::string block_unsupported(const StackSpec& spec) {
  if (spec.scales == nullptr) return {};
  const Step step = spec.model.step(0);
  const bool mixes = !step.branches.front().read_stream() || spec.model.ends().parts_of_stream() > 1;
  if (!mixes && !step.branches.front().channel_scale) return {};
  return "streams that are mixed, and branches with a factor for every channel, are predicted for weights as they are "
         "drawn, not at the sizes of given ones";
}

}  // namespace

std::string prediction_unsupported(const StackSpec& spec) {
  for (std::string reason : {norm_unsupported(spec), inside_unsupported(spec), block_unsupported(spec)}) {
    if (!reason.empty()) return reason;
  }
  return {};
}

std::string gradient_unsupported(const StackSpec& spec) {
  if (spec.scales != nullptr)
    return "gradients start from the loss, and that of trained weights is not that of random weights of their scales";
  for (const std::string& reason : {loss_unsupported(spec.model), final_norm_unsupported(spec.model),
                                    few_normed_features(spec.model), few_features_of_branch(spec)}) {
    if (!reason.empty()) return reason;
  }
  return {};
}

}  // namespace periscope::theory
