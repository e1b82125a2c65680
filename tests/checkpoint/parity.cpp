#include "tests/checkpoint/parity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "sim/checkpoint/checkpoint_gradients.h"
#include "sim/checkpoint/checkpoint_weights.h"
#include "sim/checkpoint/safetensors_reader.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"

namespace periscope::testing {
namespace {

class StreamRecord final : public SignalRecorder {
 public:
  StreamRecord(const Backend& ops, NamedTensors& out) : ops_(ops), out_(out) {}
  void on_signal(const Emission& at, const Tensor& x) override {
    if (at.signal != Signal::x_out) return;
    const std::string prefix = at.pass == Pass::backward ? "grad." : "";
    out_[fmt::format("{}stream.{}", prefix, at.sublayer + 1)] = ops_.to_host(x);
  }

 private:
  const Backend& ops_;
  NamedTensors& out_;
};

std::vector<int> as_ids(const std::vector<double>& values) { return {values.begin(), values.end()}; }

std::vector<int> labels_of(const SafetensorsFile& expected, const std::vector<int>& ids) {
  return expected.tensors().contains("labels") ? as_ids(expected.values("labels")) : next_tokens(ids);
}

double largest(const std::vector<double>& values) {
  double most = 0.0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

bool is_key_bias(const ParameterId& id) { return id.weight == Weight::k && id.part == ParameterId::Part::bias; }

/// If the tensor is a key bias, returns the name of its weight tensor, else "".
std::string weights_of_key_bias(const Checkpoint& checkpoint, const std::string& tensor) {
  const auto found = checkpoint.uses().find(tensor);
  if (found == checkpoint.uses().end() || found->second.size() != 1) return {};
  if (!is_key_bias(found->second.front().parameter)) return {};
  return tensor.substr(0, tensor.size() - std::string("bias").size()) + "weight";
}

double relative_error(const std::vector<double>& ours, const std::vector<double>& theirs, double scale) {
  if (ours.size() != theirs.size()) return std::numeric_limits<double>::infinity();
  double worst = 0.0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double difference = std::abs(ours[i] - theirs[i]);
    worst = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(worst, difference);
  }
  return worst == 0.0 ? 0.0 : worst / scale;
}

}  // namespace

std::vector<int> next_tokens(const std::vector<int>& ids) {
  std::vector<int> labels(ids.begin() + 1, ids.end());
  labels.push_back(no_label);
  return labels;
}

NamedTensors run_checkpoint(const Checkpoint& checkpoint, const std::vector<int>& ids, const std::vector<int>& labels,
                            const Target& target) {
  const Backend& ops = *target.backend;
  const CheckpointWeights weights(ops, checkpoint, target.dtype);
  const StackContext context{.ops = ops, .model = checkpoint.model(), .weights = weights};
  NamedTensors out;
  StreamRecord streams(ops, out);
  CheckpointGradients gradients(
      ops, checkpoint.map(), checkpoint.model(),
      [&out](const std::string& name, const std::vector<double>& gradient) { out["grad.weight." + name] = gradient; });
  const Hooks hooks{.recorders = {&streams}, .gradients = {&gradients}};
  const Tensor input = embedding_forward(context, ids);
  if (!checkpoint.model().unembedding) {
    out["output"] = ops.to_host(stack_forward(context, input, hooks).output);
    return out;
  }
  const Loss pass = backpropagate(context, input, labels, hooks);
  embedding_backward(context, ids, pass.gradient, hooks);
  out["logits"] = ops.to_host(pass.logits);
  out["loss"] = {pass.value};
  for (const std::string& tensor : gradients.incomplete()) out["incomplete." + tensor] = {};
  return out;
}

std::vector<TensorError> compare_with_expected(const std::string& folder, const Target& target) {
  const Checkpoint checkpoint(folder);
  const SafetensorsFile expected(folder + "/expected.safetensors");
  const std::vector<int> ids = as_ids(expected.values("input_ids"));
  NamedTensors ours = run_checkpoint(checkpoint, ids, labels_of(expected, ids), target);
  std::vector<TensorError> errors;
  for (const auto& [name, view] : expected.tensors()) {
    if (name == "input_ids" || name == "labels") continue;
    const std::vector<double> theirs = expected.values(name);
    double scale = largest(theirs);
    const std::string prefix = "grad.weight.";
    if (name.starts_with(prefix)) {
      const std::string weights = weights_of_key_bias(checkpoint, name.substr(prefix.size()));
      if (!weights.empty()) scale = largest(expected.values(prefix + weights));
    }
    errors.push_back({name, relative_error(ours[name], theirs, scale)});
    ours.erase(name);
  }
  for (const auto& [name, values] : ours) errors.push_back({name, std::numeric_limits<double>::infinity()});
  return errors;
}

TensorError worst_of(const std::vector<TensorError>& errors) {
  return *std::ranges::max_element(errors, {}, &TensorError::error);
}

}  // namespace periscope::testing
