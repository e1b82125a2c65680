#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/model/weights.h"

namespace periscope::verify {

/// Gain and bias of one norm, D numbers each; no bias: empty.
struct CaseNorm {
  std::vector<double> gain;
  std::vector<double> bias;
};

/// One input of `verify`: an MLP sublayer with every number in it, its loss behind it. x⁺ = C(αx + βB(a)) with
/// a = W2 h + b2, h the hidden activation of A(x); then the final norm and the unembedding U if the model has them,
/// then cross-entropy, mean over tokens.
struct BoundCase {
  ModelSpec model;                                    ///< one layer, of which only the MLP is used
  std::vector<double> x;                              ///< [T, D]
  std::vector<double> gate, up;                       ///< [h, D]; no gate: empty
  std::vector<double> down;                           ///< W2 [D, h]
  std::vector<double> gate_bias, up_bias, down_bias;  ///< [h], [h], [D]: the last is b2; none: empty
  std::vector<double> unembedding;                    ///< U [V, D]; none: empty
  CaseNorm a, b, c, final;                            ///< those that the model does not have are empty
  std::vector<int> labels;                            ///< T of them

  [[nodiscard]] int tokens() const { return static_cast<int>(labels.size()); }
  [[nodiscard]] SublayerRule rule() const { return model.placement.custom; }
  [[nodiscard]] int classes() const { return model.unembedding ? model.vocab : model.width; }
  /// Norms between W2 and the loss.
  [[nodiscard]] int norms_behind() const {
    return static_cast<int>(rule().norm_b) + static_cast<int>(rule().norm_c) + static_cast<int>(model.final_norm);
  }
};

/// A model of one layer with the norms, α and β of `rule`, for a case.
ModelSpec case_model(const SublayerRule& rule, int width, int mlp_width);

/// "peri", "pre" … for the norms of a case, or their letters.
std::string placement_of(const BoundCase& c);

/// Every number of a case, matrices as lists of rows; and back. Throws InputError naming `file` and the key.
nlohmann::ordered_json case_json(const BoundCase& c);
BoundCase case_from_json(const nlohmann::ordered_json& json, const std::string& file);

/// The numbers of a case as the weights of its model.
class CaseWeights final : public WeightSource {
 public:
  CaseWeights(const Backend& ops, const BoundCase& c) : ops_(ops), case_(c) {}
  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  /// Throws std::logic_error: a case has no tables.
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override;

 private:
  [[nodiscard]] Tensor matrix(Weight weight) const;
  [[nodiscard]] Tensor bias(Weight weight) const;
  [[nodiscard]] NormWeights norm(Weight weight) const;

  const Backend& ops_;
  const BoundCase& case_;
};

/// Case `id` of `seed`: a random sublayer whose shape, kinds and magnitudes are drawn too. Width 1 … 64 and hidden
/// width 1 … 64, small ones often; 1 … 4 tokens; every MLP; RMSNorm and LayerNorm; norms at A, B, C, with and without
/// final norm and unembedding; input, weights and gains of magnitude 1e-6 … 1e6, ε from 0 to 1e6; gains equal, all
/// different or negative; biases; sometimes one massive feature or hidden unit, a matrix of rank 1, a zero W2.
/// A function of its arguments alone.
BoundCase generate_case(std::uint64_t seed, std::uint32_t id);

/// The simplest case that still fails: tokens, features, hidden units, classes, norms, biases and ε are taken away
/// and numbers replaced by rounder ones, as long as `fails` says true, until nothing more can be simplified.
/// `fails(c)` must be true. Deterministic; calls `fails` at most `budget` times.
BoundCase shrink(BoundCase c, const std::function<bool(const BoundCase&)>& fails, int budget = 20000);

}  // namespace periscope::verify
