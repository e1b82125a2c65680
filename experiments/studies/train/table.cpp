#include <fmt/format.h>

#include <limits>

#include "experiments/engine/result/text_table.h"
#include "experiments/studies/train/report.h"
#include "sim/train/spikes.h"

namespace periscope::train {

namespace {

/// Returns the predicted variance at the top of a task's stack before training; "" without a prediction.
std::string predicted_of(const training::TrainResult& result, std::size_t task) {
  if (result.initial.empty()) return "";
  const theory::Prediction& prediction = result.initial[task * result.initial.size() / result.tasks.size()];
  const Curve* variance = prediction.profile.find(Statistic::variance, Signal::x_out);
  return variance == nullptr ? "" : dataset::number(variance->value.back());
}

/// Returns the largest jump of a run's gradient norm and its step, such as "15 at 24".
std::string jump_of(const training::TrainingHistory& history) {
  const Jump jump = largest_jump(history.grad_norm);
  return jump.step == 0 ? "–" : fmt::format("{:.{}f} at {}", jump.factor, jump.factor < 10.0 ? 1 : 0, jump.step);
}

}  // namespace

std::string table(const training::TrainResult& result) {
  dataset::TextTable table({"placement", ">seed", ">final loss", ">validation", ">Var predicted", ">at init", ">at end",
                            ">spikes", ">jump", "diverged"});
  for (std::size_t i = 0; i < result.tasks.size(); ++i) {
    const training::TrainingResult& trained = result.tasks[i];
    const training::TrainingHistory& h = trained.history;
    const auto last = [](const training::RecordedValues& values, const std::string& name) {
      const auto it = values.find(name);
      return it == values.end() ? std::numeric_limits<double>::quiet_NaN() : it->second.back();
    };
    const training::RecordedValues& first_record = h.records.begin()->second;
    const training::RecordedValues& last_record = h.records.rbegin()->second;
    const std::optional<int> diverged = training::divergence_step(h);
    table.add({config::placement_label(trained.task.spec), fmt::format("{}", trained.task.seed),
               dataset::number(training::mean_of_last_tenth(h, trained.task.train.steps), "{:.4f}"),
               dataset::number(last(last_record, "validation_loss"), "{:.4f}"), predicted_of(result, i),
               dataset::number(last(first_record, "variance.x_out")),
               dataset::number(last(last_record, "variance.x_out")),
               fmt::format("{}", events_of_run(h.loss, h.grad_norm).size()), jump_of(h),
               diverged ? fmt::format("step {}", *diverged) : ""});
  }
  std::string text =
      table.text() +
      "final loss: mean over the last tenth of the steps; validation: on the held-out windows, at the "
      "last record; Var: variance of the stream at the top of the stack, predicted at infinite width and measured "
      "before training, and at the last record; spikes: events in which the logarithm of loss or gradient norm is 6 "
      "robust standard deviations above its median of the last 128 steps; jump: largest ratio of the gradient norm to "
      "its median of the last 16 steps, and the step; while the norm falls steeply, a jump need not be a spike.\n";
  for (std::size_t p = 0; p < result.initial.size(); ++p) {
    const theory::Prediction& prediction = result.initial[p];
    const std::string& reason = prediction.unsupported.empty() ? prediction.left_out : prediction.unsupported;
    const StackSpec& spec = result.tasks[p * result.tasks.size() / result.initial.size()].task.spec;
    if (!reason.empty()) text += fmt::format("theory of {}: {}\n", config::placement_label(spec), reason);
  }
  if (result.loss_floor) text += fmt::format("no predictor has a mean loss below {:.4f} nat.\n", *result.loss_floor);
  return text;
}

}  // namespace periscope::train
