#include "sim/measure/model_reading.h"

#include "sim/measure/running_moments.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"

namespace periscope {

ModelProbes::ModelProbes(const StackContext& context, int top)
    : probe(context), growth(context), extremes(context, top), gradients(context) {}

Hooks ModelProbes::hooks() {
  return {.recorders = {&probe, &growth, &extremes, &gradients}, .gradients = {&gradients}};
}

void ModelProbes::take_into(const StackContext& context, bool backward, ModelReading& reading) {
  reading.reading = probe.take();
  if (backward) gradients.take_into(reading.reading.profile);
  reading.growth = growth.take();
  reading.branch_from_gains = branch_size_from_gains(context);
  Extremes largest = extremes.take();
  reading.extremes = std::move(largest.depths);
  reading.inside_maxima = std::move(largest.inside);
}

void ModelReading::read_losses(const Backend& ops, const std::vector<int>& labels) {
  token_losses = ops.token_losses(logits, labels);
  RunningMoments mean;
  for (std::size_t t = 0; t < token_losses.size(); ++t) {
    if (labels[t] != no_label) mean.add(token_losses[t]);
  }
  loss = mean.mean();
}

ModelReading read_model(const StackContext& context, const ModelPass& pass) {
  ModelProbes probes(context, pass.top);
  Hooks hooks = probes.hooks();
  const auto append = [](auto& all, const auto& more) { all.insert(all.end(), more.begin(), more.end()); };
  append(hooks.recorders, pass.hooks.recorders);
  append(hooks.gradients, pass.hooks.gradients);
  append(hooks.replacers, pass.hooks.replacers);
  ModelReading r;
  r.input = embedding_forward(context, pass.ids, hooks);
  if (pass.backward) {
    const Backpropagated back = backpropagate(context, r.input, pass.labels, hooks);
    embedding_backward(context, pass.ids, back.dinput, hooks);
    r.logits = back.logits;
  } else {
    r.logits = logits_forward(context, stack_forward(context, r.input, hooks).output, hooks);
  }
  r.read_losses(context.ops, pass.labels);
  probes.take_into(context, pass.backward, r);
  return r;
}

}  // namespace periscope
