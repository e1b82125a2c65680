#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/model/loss.h"
#include "tests/support/targets.h"

namespace periscope::testing {

/// Numbers by the names of sim/model/parameters.h.
using Parameters = std::map<std::string, std::vector<double>>;

/// A stack's loss as a function of all its numbers.
struct LossProblem {
  StackSpec spec;
  std::vector<int> ids;  ///< token input: "embedding.weight" is then a parameter
  std::vector<int> labels;
  Parameters parameters;
  std::vector<double> input;  ///< Gaussian input [N, D]
  int sequences = 1;
};

/// Weights of one seed, but with gains and biases drawn at random: equal gains would hide a norm that uses
/// another's, and zero biases one that is left out. Token input reads one id twice and some never.
LossProblem loss_problem(const StackSpec& spec, std::uint64_t seed, int sequences = 1);

/// Gives every matrix that is no table a random bias.
void add_biases(LossProblem& problem, std::uint64_t seed);

/// What a backward pass says, on the host.
struct Gradients {
  double loss = 0.0;
  Parameters parameters;
  std::vector<double> input;                                   ///< before the embedding norm
  std::vector<double> depth_zero;                              ///< after it
  std::map<std::pair<int, Signal>, std::vector<double>> site;  ///< by sublayer
};

Gradients gradients_of(const Target& target, const LossProblem& problem);

/// The loss alone, on the reference.
double loss_at(const LossProblem& problem, const Hooks& hooks = {});

/// A source that holds the problem's parameters.
class ParameterWeights final : public WeightSource {
 public:
  ParameterWeights(const Target& target, const LossProblem& problem) : target_(target), problem_(problem) {}
  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override {
    return rows_of_matrix(*this, ops, table, ids);
  }

 private:
  [[nodiscard]] Tensor tensor_of(const ParameterId& id) const;

  const Target& target_;
  const LossProblem& problem_;
};

/// What rounding does to the loss: stack_error for the spec's widest sum, times the loss.
double loss_rounding(const LossProblem& problem, double loss);

/// Step of finite differences: small against the weights' size, and so small for ReLU that a kink between the
/// stencil's points is improbable.
double step_for(const ModelSpec& model);

}  // namespace periscope::testing
