#include "tests/gradient/loss_problem.h"

#include <algorithm>

#include "sim/model/input.h"
#include "sim/model/parameters.h"
#include "tests/support/edited_weights.h"
#include "tests/support/tolerances.h"

namespace periscope::testing {
namespace {

class Recorder final : public SignalRecorder, public GradientRecorder {
 public:
  Recorder(const Backend& ops, Gradients& record) : ops_(ops), record_(record) {}
  void on_signal(const Emission& at, const Tensor& dx) override {
    if (at.pass == Pass::backward) record_.site[{at.sublayer, at.signal}] = ops_.to_host(dx);
  }
  void on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) override {
    record_.parameters[name_of(parameter)] = ops_.to_host(gradient.whole());
  }

 private:
  const Backend& ops_;
  Gradients& record_;
};

Tensor input_of(const Target& target, const LossProblem& problem, const StackContext& context, const Hooks& hooks) {
  if (!problem.ids.empty()) return embedding_forward(context, problem.ids, hooks);
  const auto rows = static_cast<Tensor::Index>(problem.labels.size());
  return target.backend->from_host(rows, problem.spec.model.width, target.dtype, problem.input);
}

}  // namespace

void add_biases(LossProblem& problem, std::uint64_t seed) {
  std::uint32_t number = 0;
  for (const ParameterId& id : matrices_of(problem.spec)) {
    if (is_table(id.weight)) continue;
    const StreamKey key{seed, 1000 + number++, Stream{}};
    const int fan_out = shape_of(problem.spec.model, id.weight, id.layer()).fan_out;
    problem.parameters[name_of(bias_of(id))] = truth().to_host(truth().normal(1, fan_out, DType::f64, key, 0.3));
  }
}

LossProblem loss_problem(const StackSpec& spec, std::uint64_t seed, int sequences) {
  LossProblem problem{.spec = spec, .ids = {}, .labels = {}, .parameters = {}, .input = {}, .sequences = sequences};
  const GeneratedWeights drawn(truth(), spec, DType::f64, seed);
  const EditedWeights weights(drawn, same_matrix, random_norms(truth()));
  const auto add = [&](const ParameterId& id) {
    const Tensor x = parameter_of(weights, spec.model, id);
    if (!x.empty()) problem.parameters[name_of(id)] = truth().to_host(x);
  };
  for (const ParameterId& id : matrices_of(spec)) add(id);
  for (const ParameterId& id : gains_of(spec.model)) {
    add(id);
    add(bias_of(id));
    add(alpha_of(id));
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

ResidentWeights weights_of(const Target& target, const LossProblem& problem) {
  ResidentWeights::Parameters tensors;
  const auto add = [&](const ParameterId& id, Tensor::Index rows) {
    const auto found = problem.parameters.find(name_of(id));
    if (found == problem.parameters.end()) return;
    const auto size = static_cast<Tensor::Index>(found->second.size());
    tensors[id] = target.backend->from_host(rows, size / rows, target.dtype, found->second);
  };
  const ModelSpec& model = problem.spec.model;
  for (const ParameterId& id : matrices_of(problem.spec)) {
    add(id, shape_of(model, id.weight, id.layer()).fan_out);
    add(bias_of(id), 1);
  }
  for (const ParameterId& id : gains_of(model)) {
    add(id, 1);
    add(bias_of(id), 1);
    add(alpha_of(id), 1);
  }
  return {model, tensors};
}

Gradients gradients_of(const Target& target, const LossProblem& problem) {
  const ResidentWeights weights = weights_of(target, problem);
  const StackContext context{*target.backend, problem.spec.model, weights, problem.sequences};
  Gradients record;
  Recorder recorder(*target.backend, record);
  const Hooks hooks{.recorders = {&recorder}, .gradients = {&recorder}};
  const Loss pass = backpropagate(context, input_of(target, problem, context, hooks), problem.labels, hooks);
  if (!problem.ids.empty()) embedding_backward(context, problem.ids, pass.gradient, hooks);
  record.loss = pass.value;
  record.input = target.backend->to_host(pass.gradient);
  record.depth_zero = record.site.at({-1, Signal::x_out});
  return record;
}

double loss_at(const LossProblem& problem, const Hooks& hooks) {
  const Target target = truth_target();
  const ResidentWeights weights = weights_of(target, problem);
  const StackContext context{truth(), problem.spec.model, weights, problem.sequences};
  const Tensor output = stack_forward(context, input_of(target, problem, context, hooks), hooks).output;
  return truth().cross_entropy(logits_forward(context, output, hooks), problem.labels).loss;
}

double loss_rounding(const LossProblem& problem, double loss) {
  const ModelSpec& m = problem.spec.model;
  return stack_error(m.sublayers(), std::max({m.width, m.query_width(0), m.mlp_width}), DType::f64) * (1.0 + loss);
}

double step_for(const ModelSpec& model) { return model.mlp == MlpKind::relu ? 1e-6 : 1e-4; }

}  // namespace periscope::testing
