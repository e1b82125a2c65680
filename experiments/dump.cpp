#include "experiments/dump.h"

#include <fmt/format.h>

#include "experiments/common/atomic_file.h"
#include "experiments/common/json_text.h"
#include "experiments/common/measure_stack.h"
#include "experiments/common/tensor_dump.h"
#include "experiments/common/token_ids.h"
#include "sim/backends.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "sim/model/parameters.h"
#include "sim/spec/error.h"

namespace periscope {
namespace {

using Entries = std::vector<SafetensorsEntry>;

/// A parameter of the stack under its name. Gains and biases are vectors.
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;
};

std::vector<Parameter> parameters_of(const StackSpec& spec, const WeightSource& weights) {
  std::vector<Parameter> all;
  for (const MatrixPlace place : matrices_of(spec)) {
    const auto [rows, cols] = shape_of(spec.model, place.weight);
    all.push_back({name_of(place), {rows, cols}});
  }
  for (const NormPlace place : norms_of(spec.model)) {
    const NormWeights w = weights.norm(place.sublayer, place.site);
    all.push_back({name_of(place) + ".gain", {w.gain.cols()}});
    if (!w.bias.empty()) all.push_back({name_of(place) + ".bias", {w.bias.cols()}});
  }
  return all;
}

class GradientDump final : public StreamGradientDump {
 public:
  using StreamGradientDump::StreamGradientDump;
  void on_weight(int layer, Weight weight, const Tensor& dw) override {
    file_.put("grad.weight." + name_of(MatrixPlace{layer, weight}), dw);
  }
  void on_norm(int sublayer, NormSite site, const Tensor& dgain, const Tensor& dbias) override {
    const std::string name = "grad.weight." + name_of(NormPlace{sublayer, site});
    file_.put(name + ".gain", dgain);
    if (!dbias.empty()) file_.put(name + ".bias", dbias);
  }
};

void write_model(const StackContext& c, const StackSpec& spec, const std::string& path) {
  Entries entries;
  for (const auto& [name, shape] : parameters_of(spec, c.weights)) {
    entries.push_back({name, SafetensorsType::f64, shape});
  }
  TensorFile file(c.ops, path, entries);
  for (const MatrixPlace place : matrices_of(spec)) {
    file.put(name_of(place), c.weights.matrix(place.layer, place.weight));
  }
  for (const NormPlace place : norms_of(spec.model)) {
    const NormWeights w = c.weights.norm(place.sublayer, place.site);
    file.put(name_of(place) + ".gain", w.gain);
    if (!w.bias.empty()) file.put(name_of(place) + ".bias", w.bias);
  }
  file.close();
}

Entries activation_entries(const StackSpec& spec, const WeightSource& weights, bool backward) {
  const ModelSpec& m = spec.model;
  const std::int64_t tokens = spec.input.tokens;
  Entries entries{{"input", SafetensorsType::f64, {tokens, m.width}}};
  if (spec.input.kind != InputKind::gaussian) entries.push_back({"tokens", SafetensorsType::i64, {tokens}});
  entries.push_back({"labels", SafetensorsType::i64, {tokens}});
  add_stream_entries(m, tokens, "", entries);
  entries.push_back({"logits", SafetensorsType::f64, {tokens, m.unembedding ? m.vocab : m.width}});
  entries.push_back({"loss", SafetensorsType::f64, {1}});
  if (!backward) return entries;
  add_stream_entries(m, tokens, "grad.", entries);
  for (const auto& [name, shape] : parameters_of(spec, weights)) {
    entries.push_back({"grad.weight." + name, SafetensorsType::f64, shape});
  }
  return entries;
}

void write_activations(const StackContext& c, const StackSpec& spec, DType dtype, const RunOptions& run,
                       const std::string& path) {
  TensorFile file(c.ops, path, activation_entries(spec, c.weights, run.backward));
  const Tensor input = stack_input(c, spec, dtype, run.seed);
  const std::vector<int> ids = token_ids(spec, run.seed);
  const std::vector<int> labels = label_ids(spec, run.seed);
  file.put("input", input);
  if (!ids.empty()) file.put("tokens", ids);
  file.put("labels", labels);
  StreamDump streams(file);
  if (run.backward) {
    GradientDump gradients(file);
    const Backpropagated pass = backpropagate(c, input, labels, streams, gradients);
    if (!ids.empty()) embedding_backward(c, ids, pass.dinput, gradients);
    file.put("logits", pass.logits);
    file.put("loss", pass.loss);
  } else {
    const Tensor logits = logits_forward(c, stack_forward(c, input, streams).output);
    file.put("logits", logits);
    file.put("loss", c.ops.cross_entropy(logits, labels).loss);
  }
  file.close();
}

}  // namespace

void dump(const Config& config, const std::string& folder) {
  const std::vector<StackSpec> stacks = config.stacks();
  if (stacks.size() != 1) {
    throw ConfigError(
        fmt::format("--dump {}: expected one placement and one kind of input, not {} stacks", folder, stacks.size()));
  }
  const StackSpec& spec = stacks.front();
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  const DType dtype = config.run.dtype_choice.value_or(DType::f64);
  const GeneratedWeights weights(*backend, spec, dtype, config.run.seed);
  const StackContext context{.ops = *backend, .model = spec.model, .weights = weights};
  write_text_file(folder + "/config.json", json_text(resolved_json(spec), 2) + "\n");
  write_atomically(folder + "/model.safetensors", [&](const std::string& path) { write_model(context, spec, path); });
  write_atomically(folder + "/activations.safetensors",
                   [&](const std::string& path) { write_activations(context, spec, dtype, config.run, path); });
}

}  // namespace periscope
