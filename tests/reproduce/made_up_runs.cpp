#include "tests/reproduce/made_up_runs.h"

#include <algorithm>

#include "tests/support/doctest.h"

namespace periscope::testing {

training::TrainingResult run_with_loss(double loss) {
  training::TrainingResult run;
  run.task.spec.model.vocab = 256;
  run.task.spec.model.layers = 3;
  run.task.train.steps = 40;
  run.history.loss.assign(40, loss);
  run.history.grad_norm.assign(40, 1.0);
  run.history.last_layer_norm.assign(40, 1.0);
  const training::RecordedValues record{{"variance.x_out", {1, 2, 3, 4, 5, 6, 7}},
                                        {"second_moment.x_out", {1, 2, 3, 4, 5, 6, 7}},
                                        {"scaled_second_moment", {1, 2, 3, 4, 5, 6, 7}},
                                        {"profiled_second_moment", {1, 2, 3, 4, 5, 6, 7}},
                                        {"profiled_deviation", {0, 0, 0, 0, 0, 0, 0}},
                                        {"rescaled_second_moment", {1, 2, 3, 4, 5, 6, 7}},
                                        {"growth_stream", {1, 2, 3, 4, 5, 6}},
                                        {"growth_branch", {1, 1, 1, 1, 1, 1}},
                                        {"growth_sum", {2, 3, 4, 5, 6, 7}},
                                        {"top_magnitudes", {9, 8}},
                                        {"largest", {9, 9}},
                                        {"angular_distance", {0, 0.1, 0.2, 0.1, 0, 0.1, 0.2, 0.1, 0}},
                                        {"gain_mean.norm_b", {1, 1, 1, 1, 1, 1}},
                                        {"grad_sq.weight.q", {1, 1, 1}}};
  run.history.records = {{0, record}, {40, record}};
  return run;
}

reproduce::GroupRuns group_of(const std::string& name, double rate,
                              const std::function<training::TrainingResult(int)>& make) {
  reproduce::GroupRuns runs;
  runs.group.name = name;
  runs.group.train.lr = rate;
  for (int seed = 0; seed < 3; ++seed) {
    runs.tasks.push_back(make(seed));
    runs.tasks.back().task.train.lr = rate;
  }
  return runs;
}

const judge::SignClaim& claim(const std::vector<judge::SignClaim>& claims, const std::string& id) {
  const auto it = std::ranges::find(claims, id, &judge::SignClaim::id);
  REQUIRE_MESSAGE(it != claims.end(), id);
  return *it;
}

}  // namespace periscope::testing
