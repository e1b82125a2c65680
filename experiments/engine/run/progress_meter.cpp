#include "experiments/engine/run/progress_meter.h"

#include <algorithm>

namespace periscope::stacks {

std::optional<double> ProgressMeter::share() const {
  if (tasks_ == 0) return std::nullopt;
  return std::min(1.0, done() / static_cast<double>(tasks_));
}

std::optional<double> ProgressMeter::rate() const {
  const double elapsed = seconds();
  if (computed_ < 1.0 || !(elapsed > 0.0)) return std::nullopt;
  return (computed_ + part_) / elapsed;
}

std::optional<double> ProgressMeter::seconds_left() const {
  const std::optional<double> pace = rate();
  if (!pace) return std::nullopt;
  return std::max(0.0, static_cast<double>(tasks_) - done()) / *pace;
}

}  // namespace periscope::stacks
