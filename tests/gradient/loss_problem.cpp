#include "tests/gradient/loss_problem.h"

#include <algorithm>

#include "sim/model/input.h"
#include "sim/model/parameters.h"
#include "tests/support/edited_weights.h"
#include "tests/support/tolerances.h"

namespace periscope::testing {
namespace {

class Recorder final : public IdleGradientObserver {
 public:
  Recorder(const Backend& ops, Gradients& record) : ops_(ops), record_(record) {}
  void on_input(const Tensor& dx) override { record_.depth_zero = ops_.to_host(dx); }
  void on_site(int sublayer, Signal site, const Tensor& dx) override {
    record_.site[{sublayer, site}] = ops_.to_host(dx);
  }
  void on_weight(int layer, Weight weight, const Tensor& dw) override {
    record_.parameters[name_of(MatrixPlace{layer, weight})] = ops_.to_host(dw);
  }
  void on_bias(int layer, Weight weight, const Tensor& dbias) override {
    record_.parameters[bias_name_of(MatrixPlace{layer, weight})] = ops_.to_host(dbias);
  }
  void on_norm(int sublayer, NormSite site, const Tensor& dgain, const Tensor& dbias) override {
    const std::string name = name_of(NormPlace{sublayer, site});
    record_.parameters[name + ".gain"] = ops_.to_host(dgain);
    if (!dbias.empty()) record_.parameters[name + ".bias"] = ops_.to_host(dbias);
  }

 private:
  const Backend& ops_;
  Gradients& record_;
};

Tensor input_of(const Target& target, const LossProblem& problem, const StackContext& context) {
  if (!problem.ids.empty()) return embedding_forward(context, problem.ids);
  const auto rows = static_cast<Tensor::Index>(problem.labels.size());
  return target.backend->from_host(rows, problem.spec.model.width, target.dtype, problem.input);
}

}  // namespace

void add_biases(LossProblem& problem, std::uint64_t seed) {
  std::uint32_t number = 0;
  for (const MatrixPlace place : matrices_of(problem.spec)) {
    if (is_table(place.weight)) continue;
    const StreamKey key{seed, 1000 + number++, 0};
    const int fan_out = shape_of(problem.spec.model, place.weight).fan_out;
    problem.parameters[bias_name_of(place)] = truth().to_host(truth().normal(1, fan_out, DType::f64, key, 0.3));
  }
}

LossProblem loss_problem(const StackSpec& spec, std::uint64_t seed, int sequences) {
  LossProblem problem{.spec = spec, .ids = {}, .labels = {}, .parameters = {}, .input = {}, .sequences = sequences};
  const GeneratedWeights drawn(truth(), spec, DType::f64, seed);
  const EditedWeights weights(drawn, same_matrix, random_norms(truth()));
  for (const MatrixPlace place : matrices_of(spec)) {
    problem.parameters[name_of(place)] = truth().to_host(weights.matrix(place.layer, place.weight));
  }
  for (const NormPlace place : norms_of(spec.model)) {
    const NormWeights w = weights.norm(place.sublayer, place.site);
    problem.parameters[name_of(place) + ".gain"] = truth().to_host(w.gain);
    if (!w.bias.empty()) problem.parameters[name_of(place) + ".bias"] = truth().to_host(w.bias);
  }
  const int classes = spec.model.unembedding ? spec.model.vocab : spec.model.width;
  const int rows = spec.input.tokens * sequences;
  for (int t = 0; t < rows; ++t) problem.labels.push_back(t * 7 % classes);
  StackSpec all = spec;
  all.input.tokens = rows;
  problem.input = truth().to_host(gaussian_input(truth(), all, DType::f64, seed));
  if (spec.input.kind != InputKind::gaussian) {
    for (int t = 0; t < rows; ++t) problem.ids.push_back((t == 2 ? 0 : 3 * t) % spec.model.vocab);
  }
  return problem;
}

Tensor ParameterWeights::matrix(int layer, Weight weight) const {
  const auto [rows, cols] = shape_of(problem_.spec.model, weight);
  const auto& values = problem_.parameters.at(name_of(MatrixPlace{layer, weight}));
  return target_.backend->from_host(rows, cols, target_.dtype, values);
}

Tensor ParameterWeights::bias(int layer, Weight weight) const {
  return vector_of(bias_name_of(MatrixPlace{layer, weight}));
}

NormWeights ParameterWeights::norm(int sublayer, NormSite site) const {
  const std::string name = name_of(NormPlace{sublayer, site});
  return {.gain = vector_of(name + ".gain"), .bias = vector_of(name + ".bias")};
}

Tensor ParameterWeights::vector_of(const std::string& name) const {
  const auto found = problem_.parameters.find(name);
  if (found == problem_.parameters.end()) return {};
  const auto size = static_cast<Tensor::Index>(found->second.size());
  return target_.backend->from_host(1, size, target_.dtype, found->second);
}

Gradients gradients_of(const Target& target, const LossProblem& problem) {
  const ParameterWeights weights(target, problem);
  const StackContext context{*target.backend, problem.spec.model, weights, problem.sequences};
  Gradients record;
  Recorder recorder(*target.backend, record);
  IdleObserver nobody;
  const Backpropagated pass =
      backpropagate(context, input_of(target, problem, context), problem.labels, nobody, recorder);
  if (!problem.ids.empty()) embedding_backward(context, problem.ids, pass.dinput, recorder);
  record.loss = pass.loss;
  record.input = target.backend->to_host(pass.dinput);
  return record;
}

double loss_at(const LossProblem& problem) {
  const Target target = truth_target();
  const ParameterWeights weights(target, problem);
  const StackContext context{truth(), problem.spec.model, weights, problem.sequences};
  IdleObserver nobody;
  const Tensor output = stack_forward(context, input_of(target, problem, context), nobody).output;
  return truth().cross_entropy(logits_forward(context, output), problem.labels).loss;
}

double loss_rounding(const LossProblem& problem, double loss) {
  const ModelSpec& m = problem.spec.model;
  return stack_error(m.sublayers(), std::max({m.width, m.query_width(), m.mlp_width}), DType::f64) * (1.0 + loss);
}

double step_for(const ModelSpec& model) { return model.mlp == MlpKind::relu ? 1e-6 : 1e-4; }

}  // namespace periscope::testing
