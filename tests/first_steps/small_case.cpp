#include "tests/first_steps/small_case.h"

#include <algorithm>
#include <utility>

namespace periscope::theory {

OptimizerLaw adam(std::vector<double> rates) {
  OptimizerLaw law;
  law.rates = std::move(rates);
  law.eps = 0.0;
  return law;
}

OptimizerLaw sgd(std::vector<double> rates) {
  OptimizerLaw law = adam(std::move(rates));
  law.adam = false;
  law.momentum = 0.0;
  return law;
}

StackSpec small_stack(const char* placement) {
  StackSpec spec;
  spec.model.layers = 2;
  spec.model.width = 64;
  spec.model.heads = spec.model.kv_heads = 4;
  spec.model.head_dim = 16;
  spec.model.mlp_width = 128;
  spec.model.vocab = 16;
  spec.model.placement = *find_placement(placement);
  take_defaults(spec.model.placement, spec.model);
  spec.init.std = 0.1;
  spec.input.kind = InputKind::tokens;
  spec.input.tokens = 4;
  return spec;
}

StackSpec flat_stack(const char* placement, int layers) {
  StackSpec spec = small_stack(placement);
  spec.model.layers = layers;
  AttentionRule flat;
  flat.scores.scale = 1e-4;
  spec.model.attention.assign(static_cast<std::size_t>(layers), flat);
  return spec;
}

FirstStepsInput small_input(std::vector<double> rates) {
  FirstStepsInput input;
  TrainingBatches& run = input.runs.emplace_back();
  for (int s = 0; s < static_cast<int>(rates.size()); ++s) {
    run.inputs.push_back({1, 2, 3, 4, 5, 3 + s, 7, 1});
    run.labels.push_back({2, 3, 4, 4, 3 + s, 7, 1, 2});
  }
  input.ids = {1, 9, 3, 2, 5, 6, 1, 1};
  input.labels = {9, 3, 2, 4, 6, 1, 1, 3};
  input.optimizer = adam(std::move(rates));
  return input;
}

FirstStepsInput seen_input(OptimizerLaw optimizer) {
  FirstStepsInput input = small_input(optimizer.rates);
  input.optimizer = std::move(optimizer);
  TrainingBatches& run = input.runs.front();
  input.ids = run.inputs.front();
  input.labels = run.labels.front();
  for (std::vector<int>& ids : run.inputs) ids = input.ids;
  for (std::vector<int>& labels : run.labels) labels = input.labels;
  for (std::vector<int>* tokens : {&input.ids, &input.labels}) {
    std::rotate(tokens->begin(), tokens->begin() + 4, tokens->end());
  }
  return input;
}

FirstStepsOptions few() {
  return {.neurons = 64, .replicates = 2, .seed = 3, .fault = StepFault::none, .on_progress = {}};
}

}  // namespace periscope::theory
