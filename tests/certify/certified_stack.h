#pragma once

#include "experiments/engine/settings/theory_parameters.h"
#include "experiments/studies/certify/attack.h"
#include "sim/model/weights.h"
#include "tests/soundness/specimen.h"
#include "tests/support/edited_weights.h"
#include "tests/support/recorded_stack.h"
#include "theory/certify/certificate.h"

namespace periscope::testing {

/// Adds N(0, scale²) noise to the bias of every matrix of another source, except tables.
class BiasedWeights final : public WeightSource {
 public:
  BiasedWeights(const Backend& backend, const WeightSource& source, double scale)
      : backend_(backend), source_(source), scale_(scale) {}

  [[nodiscard]] SublayerWeights fetch(int sublayer) const override {
    SublayerWeights all = source_.fetch(sublayer);
    for (auto& [weight, linear] : all.linear) {
      if (is_table(weight)) continue;
      const auto layer = static_cast<std::uint32_t>(is_of_layer(weight) ? sublayer / 2 : 0);
      const StreamKey key{91, layer, Stream{2100 + static_cast<std::uint32_t>(weight)}};
      const Tensor w = linear.map->dense();
      const Tensor added = backend_.normal(1, w.rows(), w.dtype(), key, scale_);
      linear.bias = linear.bias.empty() ? added : backend_.axpby(1.0, linear.bias, 1.0, added);
    }
    return all;
  }
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override {
    return source_.rows(ops, table, ids);
  }

 private:
  const Backend& backend_;
  const WeightSource& source_;
  double scale_;
};

/// A stack with random gains and biases everywhere.
struct CertifiedStack {
  StackSpec spec;
  GeneratedWeights plain;
  EditedWeights normed;
  BiasedWeights weights;

  explicit CertifiedStack(StackSpec s, std::uint64_t seed = 5, double bias = 0.5)
      : spec(std::move(s)),
        plain(truth(), spec, DType::f64, seed),
        normed(plain, same_matrix, random_norms(truth())),
        weights(truth(), normed, bias) {}
  [[nodiscard]] StackContext context() const { return {.ops = truth(), .model = spec.model, .weights = weights}; }
};

inline theory::Certificate certify(const ModelSpec& model, const WeightSource& weights,
                                   const theory::InputDomain& domain = {}, const RunArithmetic& run = {},
                                   int longest = theory::default_longest) {
  return theory::certify(model, config::TheoryParameters(truth(), model, weights), domain, run, longest);
}

/// Returns a random stack with random options and at most six tokens.
inline StackSpec random_stack(verify::Draw& draw) {
  soundness::Specimen specimen;
  soundness::draw_model(draw, specimen);
  StackSpec spec{.model = specimen.model, .init = {}, .input = {}};
  spec.init.scheme = InitScheme::lecun;
  spec.input.kind = InputKind::tokens;
  spec.input.tokens = std::min(specimen.tokens, 6);
  return spec;
}

inline StackSpec token_stack(std::string_view placement) {
  StackSpec spec = placed(tiny_stack(), placement);
  spec.input.kind = InputKind::tokens;
  return spec;
}

}  // namespace periscope::testing
