#include "experiments/studies/probe/dump.h"

#include <algorithm>

#include "experiments/engine/run/tensor_dump.h"
#include "sim/checkpoint/checkpoint_gradients.h"

namespace periscope::probe {
namespace {

std::vector<SafetensorsEntry> entries_of(const Checkpoint& checkpoint, const ModelPass& pass, bool has_loss) {
  const auto tokens = static_cast<std::int64_t>(pass.ids.size());
  std::vector<SafetensorsEntry> entries = stacks::pass_entries(checkpoint.model(), tokens, pass.backward);
  entries.push_back({"tokens", SafetensorsType::i64, {tokens}});
  if (has_loss) entries.push_back({"loss", SafetensorsType::f64, {1}});
  for (const auto& [tensor, uses] : checkpoint.uses()) {
    if (pass.backward) entries.push_back({"grad.weight." + tensor, SafetensorsType::f64, stored_shape(uses)});
  }
  return entries;
}

}  // namespace

ModelReading dump_model(const StackContext& c, const Checkpoint& checkpoint, ModelPass pass, OutputFile& output) {
  const bool has_loss = std::ranges::any_of(pass.labels, [](int label) { return label != no_label; });
  stacks::TensorFile file(c.ops, output, entries_of(checkpoint, pass, has_loss));
  stacks::StreamDump streams(c.ops, c.model, file);
  CheckpointGradients gradients(c.ops, checkpoint.map(), checkpoint.model(),
                                [&](const std::string& tensor, const std::vector<double>& gradient) {
                                  file.put("grad.weight." + tensor, gradient);
                                });
  pass.hooks.recorders.push_back(&streams);
  pass.hooks.gradients.push_back(&gradients);
  ModelReading reading = read_model(c, pass);
  file.put("input", reading.input);
  file.put("tokens", pass.ids);
  file.put("labels", pass.labels);
  file.put("logits", reading.logits);
  if (has_loss) file.put("loss", reading.loss);
  file.close();
  return reading;
}

}  // namespace periscope::probe
