#include "experiments/studies/probe/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "experiments/engine/run/cost.h"
#include "experiments/engine/run/threads.h"
#include "experiments/engine/settings/resolved.h"
#include "experiments/engine/settings/sha256.h"
#include "experiments/engine/study/checkpoint_flags.h"
#include "experiments/studies/probe/probe.h"
#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/checkpoint/checkpoint_weights.h"
#include "sim/measure/model_reading.h"
#include "sim/model/parameters.h"

namespace periscope::probe {
namespace {

Tensor tensor_of(const Backend& ops, const OutsidePass::Value& value, DType dtype) {
  if (value.rows < 1 || value.cols < 1 ||
      value.values.size() != static_cast<std::size_t>(value.rows) * static_cast<std::size_t>(value.cols)) {
    throw InputError(fmt::format("{} of sublayer {}: found {} numbers, expected {} rows of {}",
                                 name_of(value.at.signal), value.at.sublayer, value.values.size(), value.rows,
                                 value.cols));
  }
  return ops.from_host(value.rows, value.cols, dtype, value.values);
}

void require_sizes(const OutsidePass& pass, const ModelSpec& model) {
  const std::size_t rows = pass.ids.size();
  const bool is_empty = std::ranges::any_of(pass.lengths, [](int length) { return length < 1; });
  const int tokens = std::accumulate(pass.lengths.begin(), pass.lengths.end(), 0);
  if (is_empty || rows == 0 || static_cast<std::size_t>(tokens) != rows || pass.labels.size() != rows) {
    throw InputError(fmt::format("{} ids, {} labels, {} tokens in {} sequences: expected one label per id", rows,
                                 pass.labels.size(), tokens, pass.lengths.size()));
  }
  for (const OutsidePass::Value& value : pass.signals) {
    const bool is_of_a_sublayer = value.at.sublayer >= 0 && value.at.sublayer < model.sublayers();
    const bool is_wrong = static_cast<std::size_t>(value.rows) != rows ||
                          (!is_of_a_sublayer && value.at.signal != Signal::x_out) ||
                          (is_stream_signal(value.at.signal) && value.cols != model.width) || value.at.sublayer < -1 ||
                          value.at.sublayer > model.sublayers();
    if (!is_wrong) continue;
    throw InputError(fmt::format(
        "{} of sublayer {}: found the shape [{}, {}], expected {} rows in a model of width {} with {} sublayers",
        name_of(value.at.signal), value.at.sublayer, value.rows, value.cols, rows, model.width, model.sublayers()));
  }
}

void measure(const StackContext& context, const OutsidePass& pass, DType dtype, int top, ModelReading& r) {
  const bool is_ragged = context.sequences < static_cast<int>(pass.lengths.size());
  ModelProbes probes(context, top, is_ragged ? pass.lengths : std::vector<int>());
  const Hooks hooks = probes.hooks();
  // Input and output of a missing norm share an array. They get the same tensor, so that probes measure it once.
  std::map<const double*, Tensor> tensors;
  for (const OutsidePass::Value& value : pass.signals) {
    constexpr std::size_t neighbours = 8;
    if (tensors.size() > neighbours && !tensors.contains(value.values.data())) tensors.clear();
    const auto [found, is_new] = tensors.try_emplace(value.values.data());
    if (is_new) found->second = tensor_of(context.ops, value, dtype);
    const Tensor& x = found->second;
    for (SignalRecorder* recorder : hooks.recorders) recorder->on_signal(value.at, x);
  }
  for (const auto& [parameter, squares] : pass.gradients) {
    const auto sum = [&, squares = squares] { return context.ops.from_host(1, 1, DType::f64, std::span(&squares, 1)); };
    probes.gradients.on_gradient(parameter, {[] { return Tensor(); }, sum});
  }
  probes.take_into(context, pass.backward, r);
  const auto width = context.model.width;
  const double here = format_of(dtype).unit_roundoff();
  const double explained = growth_rounding(std::max(here, pass.unit_roundoff), width) / growth_rounding(here, width);
  for (Growth& g : r.growth) g.residual /= explained;
}

void measure_losses(const StackContext& context, const OutsidePass& pass, ModelReading& r) {
  r.token_losses.assign(pass.ids.size(), std::numeric_limits<double>::quiet_NaN());
  r.loss = std::numeric_limits<double>::quiet_NaN();
  if (pass.logits.empty()) return;
  const auto rows = static_cast<std::int64_t>(pass.ids.size());
  const std::int64_t vocab = static_cast<std::int64_t>(pass.logits.size()) / rows;
  for (const int label : pass.labels) {
    if (label == no_label || (label >= 0 && label < vocab)) continue;
    throw InputError(
        fmt::format("label {}: expected 0 to {} (the model's vocabulary), or {} for none", label, vocab - 1, no_label));
  }
  r.logits = tensor_of(context.ops, {{}, rows, vocab, pass.logits}, DType::f64);
  r.read_losses(context.ops, pass.labels);
}

}  // namespace

study::Outcome replay(const std::shared_ptr<const MemoryModel>& model, const OutsidePass& pass, DType dtype, int top) {
  if (top < 1) throw InputError(fmt::format("top = {}: expected at least 1", top));
  const Checkpoint checkpoint(model);
  require_sizes(pass, checkpoint.model());
  for (const auto& [parameter, squares] : pass.gradients) {
    if (parameter.layer() >= 0 && parameter.layer() < checkpoint.model().layers) continue;
    throw InputError(
        fmt::format("gradient of {}: expected layer 0 to {}", name_of(parameter), checkpoint.model().layers - 1));
  }
  const std::unique_ptr<Backend> backend = make_backend("cpu");
  const CheckpointWeights weights(*backend, checkpoint, dtype);
  const int longest = std::ranges::max(pass.lengths);
  const auto sequences = static_cast<int>(pass.lengths.size());
  const bool are_equal = std::ranges::count(pass.lengths, longest) == sequences;
  const StackContext context{
      .ops = *backend, .model = checkpoint.model(), .weights = weights, .sequences = are_equal ? sequences : 1};
  config::Config config;
  config.run.dtype = dtype;
  config.run.backward = pass.backward;
  ProbeResult result =
      result_of(checkpoint, model->name, config,
                {.ids = pass.ids, .labels = pass.labels, .tokenizer = nullptr, .tokenizer_name = "none", .notes = {}},
                longest, "not computed for a recorded pass");
  // Even with gradients, measuring takes fewer operations than a forward pass.
  const bool small = stacks::is_small_pass(checkpoint.model(), static_cast<int>(pass.ids.size()), false);
  const stacks::Threads threads = stacks::Threads::one_if(small);
  measure(context, pass, dtype, top, result.measured);
  measure_losses(context, pass, result.measured);
  result.resolved = config::resolved(config, {result.at_init});
  for (auto* json : {&result.resolved.printed, &result.resolved.hashed}) {
    (*json)["checkpoint"] = {{"config.json", config::sha256_of(checkpoint.config_file())}};
  }
  result.resolved.hashed["ids"] = pass.ids;
  study::Outcome outcome{.data = dataset_of(result), .table = table(result), .resolved = result.resolved};
  study::set_checkpoint(*outcome.data, model->name, result.ignored_keys);
  return outcome;
}

}  // namespace periscope::probe
