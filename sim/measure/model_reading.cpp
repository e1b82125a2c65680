#include "sim/measure/model_reading.h"

#include <cmath>

#include "sim/measure/branch_size.h"
#include "sim/measure/gradient_probe.h"
#include "sim/measure/observer_group.h"
#include "sim/measure/running.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"

namespace periscope {

ModelReading read_model(const StackContext& context, const ModelPass& pass) {
  Probe probe(context);
  GrowthProbe growth(context);
  ExtremesProbe extremes(context, pass.top);
  GradientProbe gradients(context);
  std::vector<Observer*> observers{&probe, &growth, &extremes};
  observers.insert(observers.end(), pass.observers.begin(), pass.observers.end());
  ObserverGroup forward(std::move(observers));
  ModelReading r;
  r.input = embedding_forward(context, pass.ids);
  if (pass.backward) {
    std::vector<GradientObserver*> all{&gradients};
    all.insert(all.end(), pass.gradients.begin(), pass.gradients.end());
    GradientObserverGroup backward(std::move(all));
    const Backpropagated back = backpropagate(context, r.input, pass.labels, forward, backward);
    embedding_backward(context, pass.ids, back.dinput, backward);
    r.logits = back.logits;
  } else {
    r.logits = logits_forward(context, stack_forward(context, r.input, forward).output);
  }
  r.token_losses = context.ops.token_losses(r.logits, pass.labels);
  Running mean;
  for (const double loss : r.token_losses) {
    if (!std::isnan(loss)) mean.add(loss);
  }
  r.loss = mean.mean();
  r.reading = probe.take();
  if (pass.backward) gradients.take_into(r.reading.profile);
  r.growth = growth.sublayers();
  r.branch_from_gains = branch_size_from_gains(context);
  r.extremes = extremes.depths();
  r.inside_maxima = extremes.inside();
  return r;
}

}  // namespace periscope
