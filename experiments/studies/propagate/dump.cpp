#include <fmt/format.h>

#include "experiments/engine/run/cost.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/run/tensor_dump.h"
#include "experiments/engine/run/token_ids.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/studies/propagate/propagate.h"
#include "sim/backends.h"
#include "sim/files/output_folder.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "sim/model/parameters.h"

namespace periscope::propagate {
namespace {

using Entries = std::vector<SafetensorsEntry>;

/// Returns [length] for gains and biases of norms, [rows, cols] for other parameters.
std::vector<std::int64_t> stored_shape_of(const ModelSpec& model, const ParameterId& id) {
  if (is_norm(id.weight)) return {vector_length(model, id)};
  const auto [rows, cols] = shape_of(model, id.weight, id.layer());
  return {rows, cols};
}

/// Writes the gradients that have an entry in the file.
class GradientDump final : public GradientRecorder {
 public:
  explicit GradientDump(stacks::TensorFile& file) : file_(file) {}
  void on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) override {
    file_.put("grad.weight." + name_of(parameter), gradient.whole());
  }

 private:
  stacks::TensorFile& file_;
};

/// Coefficients of a sublayer on parallel streams x_i: r = Σ pre_j x_j, x_i⁺ = Σ mix_ij x_j + post_i y.
struct Mixing {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};

std::vector<Mixing> mixings_of(const ModelSpec& model) {
  std::vector<Mixing> all;
  const std::int64_t parts = model.ends().parts_of_stream();
  for (int s = 0; parts > 1 && s < model.steps(); ++s) {
    const Step step = model.step(s);
    const Branch& branch = step.branches.front();
    const std::string module = branch.kind == ModuleKind::attention ? "attention" : "mlp";
    const std::string at = fmt::format("layers.{}.{}.", branch.layer(), module);
    std::vector<double> mix;
    for (const std::vector<double>& row : step.mixing) mix.insert(mix.end(), row.begin(), row.end());
    all.push_back({at + "pre", {parts}, branch.reads});
    all.push_back({at + "post", {parts}, branch.writes});
    all.push_back({at + "mix", {parts, parts}, mix});
  }
  return all;
}

void write_model(const StackContext& c, const StackSpec& spec, OutputFile& output) {
  Entries entries;
  for (const ParameterId& id : all_parameters_of(spec)) {
    entries.push_back({name_of(id), SafetensorsType::f64, stored_shape_of(spec.model, id)});
  }
  const std::vector<Mixing> mixings = mixings_of(spec.model);
  for (const Mixing& mixing : mixings) entries.push_back({mixing.name, SafetensorsType::f64, mixing.shape});
  stacks::TensorFile file(c.ops, output, entries);
  for (const ParameterId& id : all_parameters_of(spec)) file.put(name_of(id), parameter_of(c.weights, spec.model, id));
  for (const Mixing& mixing : mixings) file.put(mixing.name, mixing.values);
  file.close();
}

Entries activation_entries(const StackSpec& spec, bool backward) {
  const std::int64_t tokens = spec.input.tokens;
  Entries entries = stacks::pass_entries(spec.model, tokens, backward);
  if (spec.input.kind != InputKind::gaussian) entries.push_back({"tokens", SafetensorsType::i64, {tokens}});
  entries.push_back({"loss", SafetensorsType::f64, {1}});
  if (!backward) return entries;
  for (const ParameterId& id : all_parameters_of(spec)) {
    entries.push_back({"grad.weight." + name_of(id), SafetensorsType::f64, stored_shape_of(spec.model, id)});
  }
  return entries;
}

void write_activations(const StackContext& c, const StackSpec& spec, const config::RunOptions& run,
                       OutputFile& output) {
  stacks::TensorFile file(c.ops, output, activation_entries(spec, run.backward));
  stacks::StreamDump streams(c.ops, c.model, file);
  GradientDump gradients(file);
  const Hooks hooks{.recorders = {&streams}, .gradients = {&gradients}};
  const Tensor input = stacks::stack_input(c, spec, run.dtype, run.seed);
  const std::vector<int> ids = stacks::token_ids(spec, run.seed);
  const std::vector<int> labels = stacks::label_ids(spec, run.seed);
  file.put("input", input);
  if (!ids.empty()) file.put("tokens", ids);
  file.put("labels", labels);
  if (run.backward) {
    const Loss pass = backpropagate(c, input, labels, hooks);
    if (!ids.empty()) embedding_backward(c, ids, pass.gradient, hooks);
    file.put("logits", pass.logits);
    file.put("loss", pass.value);
  } else {
    const Tensor logits = logits_forward(c, stack_forward(c, input, hooks).output);
    file.put("logits", logits);
    file.put("loss", c.ops.cross_entropy(logits, labels).loss);
  }
  file.close();
}

}  // namespace

void dump(const config::Config& config, const std::string& folder, bool overwrite,
          const std::function<void()>& before_commit) {
  const StackSpec spec = config.stacks().front();
  OutputFolder files(folder, {"model.safetensors", "activations.safetensors", "config.json"}, overwrite);
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  const DType dtype = config.run.dtype_choice.value_or(DType::f64);
  config::RunOptions run = stacks::run_of(config, spec);
  run.dtype = dtype;
  const std::unique_ptr<WeightSource> weights =
      stacks::random_weights(*backend, spec, run, run.seed, StoreFactors::yes);
  const StackContext context{.ops = *backend, .model = spec.model, .weights = *weights};
  write_activations(context, spec, run, files.file(1));
  write_model(context, spec, files.file(0));  // after the pass, which completes matrix-free weights
  files.file(2).write_at(0, config::json_text(config::resolved_json(spec), 2) + "\n");
  before_commit();
  files.commit();
}

}  // namespace periscope::propagate
