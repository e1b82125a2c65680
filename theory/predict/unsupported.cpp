#include <fmt/format.h>

#include <algorithm>

#include "theory/norms/norm_law.h"
#include "theory/passes/backward.h"
#include "theory/predict/predict.h"

namespace periscope::theory {
namespace {

/// QK-norm, V-norm and inner norms divide gradients by the rms of n features. E[1/rms²] = n/(n − 2), finite for n > 2.
std::string few_normed_features(const ModelSpec& m) {
  const auto reason = [](std::string_view norm, int features) {
    return fmt::format("{} over {} feature{}: expected at least 3, otherwise the mean squared gradient is infinite",
                       norm, features, features == 1 ? "" : "s");
  };
  for (int layer = 0; layer < m.layers; ++layer) {
    const int e = m.head_dim_at(layer);
    const int values = m.key_width(layer);
    if (m.qk_norm_at(layer) != QkNorm::none) {
      const int features = m.qk_norm_at(layer) == QkNorm::full ? std::min(m.query_width(layer), values) : e;
      if (features <= 2) return reason("QK-norm", features);
    }
    if (m.v_norm_at(layer) && e <= 2) return reason("V-norm", e);
    if (m.inner_norm_at(2 * layer) && values <= 2) return reason("inner norm of attention", values);
    if (m.inner_norm_at(2 * layer + 1) && m.mlp_width <= 2) return reason("inner norm of the MLP", m.mlp_width);
  }
  return {};
}

/// Norm B divides the gradient at its input by the rms of the module's output. If the output is a linear map of n ≤ 2
/// random numbers, E[1/rms²] is infinite. This happens for MLPs of at most 2 hidden channels, and for attention
/// with at most 2 value features in total if some token sees only itself or equal tokens.
std::string few_features_of_branch(const StackSpec& spec) {
  const ModelSpec& m = spec.model;
  if (is_pointwise(m.norm)) return {};
  const bool same = spec.input.kind == InputKind::gaussian && spec.input.correlation == 1.0;
  const bool alone = m.causal || spec.input.tokens == 1 || same;
  const auto reason = [](std::string_view module, int n, std::string_view unit) {
    return fmt::format(
        "norm B after {} with {} {}: expected at least 3, otherwise the mean squared gradient is infinite", module, n,
        unit);
  };
  for (int l = 0; l < m.sublayers(); ++l) {
    if (!m.rule(l).norm_b) continue;
    const int values = m.key_width(ModelSpec::layer_of(l));
    if (ModelSpec::is_attention(l) && alone && values <= 2) return reason("attention", values, "value features");
    if (!ModelSpec::is_attention(l) && m.mlp_width <= 2) return reason("an MLP", m.mlp_width, "hidden channels");
  }
  return {};
}

/// Norms and gates inside modules have no formulas yet for channels that differ in gain or size.
std::string inside_unsupported(const StackSpec& spec) {
  const ModelSpec& m = spec.model;
  for (int l = 0; spec.scales != nullptr && l < m.sublayers(); ++l) {
    const int layer = ModelSpec::layer_of(l);
    if (!m.v_norm_at(layer) && !m.inner_norm_at(l) && m.gates_at(layer) == 0) continue;
    return "model.v_norm, model.inner_norm and model.attention_gate are unsupported with the scales of given weights";
  }
  return {};
}

/// Given weights have per-channel factors, which cross kernels between streams do not support.
std::string block_unsupported(const StackSpec& spec) {
  if (spec.scales == nullptr) return {};
  const Step step = spec.model.step(0);
  const bool mixes = !step.branches.front().read_stream() || spec.model.ends().parts_of_stream() > 1;
  if (!mixes && !step.branches.front().channel_scale) return {};
  return "mixed streams and per-channel branch factors are unsupported with the scales of given weights";
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
    return "gradients depend on the loss, which differs between trained weights and random weights of equal scales";
  for (const std::string& reason : {loss_unsupported(spec.model), final_norm_unsupported(spec.model),
                                    few_normed_features(spec.model), few_features_of_branch(spec)}) {
    if (!reason.empty()) return reason;
  }
  return {};
}

}  // namespace periscope::theory
