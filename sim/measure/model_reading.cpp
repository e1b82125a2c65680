#include "sim/measure/model_reading.h"

#include "sim/measure/gradient_probe.h"
#include "sim/measure/growth_probe.h"
#include "sim/measure/running_moments.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"

namespace periscope {

ModelReading read_model(const StackContext& context, const ModelPass& pass) {
  Probe probe(context);
  GrowthProbe growth(context);
  ExtremesProbe extremes(context, pass.top);
  GradientProbe gradients(context);
  Hooks hooks{.recorders = {&probe, &growth, &extremes, &gradients}, .gradients = {&gradients}};
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
  r.token_losses = context.ops.token_losses(r.logits, pass.labels);
  RunningMoments mean;
  for (std::size_t t = 0; t < r.token_losses.size(); ++t) {
    if (pass.labels[t] != no_label) mean.add(r.token_losses[t]);
  }
  r.loss = mean.mean();
  r.reading = probe.take();
  if (pass.backward) gradients.take_into(r.reading.profile);
  r.growth = growth.take();
  r.branch_from_gains = branch_size_from_gains(context);
  Extremes largest = extremes.take();
  r.extremes = std::move(largest.depths);
  r.inside_maxima = std::move(largest.inside);
  return r;
}

}  // namespace periscope
