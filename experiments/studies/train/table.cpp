#include <fmt/format.h>

#include <limits>

#include "experiments/core/dataset/text_table.h"
#include "experiments/studies/train/report.h"
#include "sim/train/spikes.h"

namespace periscope::train {

std::string table(const training::TrainResult& result) {
  dataset::TextTable table({"placement", ">seed", ">final loss", ">validation", ">variance at init", ">variance at end",
                            ">spikes", "diverged"});
  for (const training::TrainedCell& trained : result.cells) {
    const training::CellHistory& h = trained.history;
    const auto last = [](const training::RecordedValues& values, const std::string& name) {
      const auto it = values.find(name);
      return it == values.end() ? std::numeric_limits<double>::quiet_NaN() : it->second.back();
    };
    const training::RecordedValues& first_record = h.records.begin()->second;
    const training::RecordedValues& last_record = h.records.rbegin()->second;
    const std::optional<int> diverged = training::divergence_step(h);
    table.add({config::placement_label(trained.cell.spec), fmt::format("{}", trained.cell.seed),
               dataset::number(training::mean_of_last_tenth(h, trained.cell.train.steps), "{:.4f}"),
               dataset::number(last(last_record, "validation_loss"), "{:.4f}"),
               dataset::number(last(first_record, "variance.x_out")),
               dataset::number(last(last_record, "variance.x_out")),
               fmt::format("{}", events_of_run(h.loss, h.grad_norm).size()),
               diverged ? fmt::format("step {}", *diverged) : ""});
  }
  std::string text =
      table.text() +
      "final loss: mean over the last tenth of the steps; validation: on the held-out windows, at the "
      "last record; variance: of the stream at the top of the stack; spikes: events in which the logarithm "
      "of loss or gradient norm is 6 robust standard deviations above its median of the last 128 steps.\n";
  if (result.loss_floor) text += fmt::format("no predictor has a mean loss below {:.4f} nat.\n", *result.loss_floor);
  return text;
}

}  // namespace periscope::train
