#include "sim/measure/model_reading.h"

#include <limits>

#include "sim/measure/running_moments.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"

namespace periscope {

std::vector<double> branch_size_from_gains(const StackContext& c) {
  const auto mean_square = [&](const Tensor& x) {
    return x.empty() ? 0.0 : c.ops.row_moments(x)[Statistic::second_moment].front();
  };
  std::vector<double> sizes;
  for (int l = 0; l < c.model.sublayers(); ++l) {
    const SublayerRule rule = c.model.rule(l);
    if (!rule.norm_b || is_pointwise(c.model.norm)) {
      sizes.push_back(std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    const NormWeights w = c.weights.fetch(l).norm(Weight::norm_b);
    // D for an L2 norm, whose output has length 1; otherwise 1.
    const double features = c.model.width / formula_of(c.model.norm).count(c.model.width);
    sizes.push_back(rule.beta * rule.beta * (mean_square(w.gain) / features + mean_square(w.bias)));
  }
  return sizes;
}

ModelProbes::ModelProbes(const StackContext& context, int top, const std::vector<int>& lengths)
    : probe(context, true, lengths), extremes(context, top), gradients(context) {}

Hooks ModelProbes::hooks() { return {.recorders = {&probe, &extremes, &gradients}, .gradients = {&gradients}}; }

void ModelProbes::take_into(const StackContext& context, bool backward, ModelReading& reading) {
  reading.reading = probe.take();
  if (backward) {
    gradients.take_into(reading.reading.profile);
    reading.token_gradients = gradients.token_squares();
  }
  reading.growth = probe.growth();
  reading.branch_from_gains = branch_size_from_gains(context);
  reading.extremes = extremes.take();
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
    const Loss back = backpropagate(context, r.input, pass.labels, hooks);
    embedding_backward(context, pass.ids, back.gradient, hooks);
    r.logits = back.logits;
  } else {
    r.logits = logits_forward(context, stack_forward(context, r.input, hooks).output, hooks);
  }
  r.read_losses(context.ops, pass.labels);
  probes.take_into(context, pass.backward, r);
  return r;
}

}  // namespace periscope
