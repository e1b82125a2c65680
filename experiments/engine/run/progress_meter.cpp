#include "experiments/engine/run/progress_meter.h"

#include <algorithm>

namespace periscope::stacks {

void ProgressMeter::start(const Work& all, std::int64_t steps) {
  steps_ = steps;
  steps_done_ = 0;
  paces_ = {};
  for (std::size_t i = 0; i < paces_.size(); ++i) paces_[i].all = all.operations[i];
  start_ = last_event_ = Clock::now();
  next(WorkKind::measurement, 1.0);
}

void ProgressMeter::next(WorkKind kind, double operations) {
  kind_ = kind;
  operations_ = operations;
  part_ = 0.0;
}

/// Counts what was done since the last event.
void ProgressMeter::count(double work, bool fresh) {
  const Clock::time_point now = Clock::now();
  Pace& pace = paces_[static_cast<std::size_t>(kind_)];
  pace.done += work;
  if (fresh) {
    pace.fresh += work;
    pace.seconds += std::chrono::duration<double>(now - last_event_).count();
  }
  last_event_ = now;
}

void ProgressMeter::step(int count_of_steps) {
  count(operations_ * (count_of_steps - part_), true);
  part_ = 0.0;
  steps_done_ += count_of_steps;
}

void ProgressMeter::kept(int count_of_steps) {
  count(operations_ * (count_of_steps - part_), false);
  part_ = 0.0;
  steps_done_ += count_of_steps;
}

void ProgressMeter::part(double share) {
  count(operations_ * (share - part_), true);
  part_ = share;
}

std::optional<double> ProgressMeter::share() const {
  double all = 0.0;
  double done = 0.0;
  for (const Pace& p : paces_) {
    all += p.all;
    done += std::min(p.done, p.all);
  }
  if (!(all > 0.0)) return std::nullopt;
  return std::min(1.0, done / all);
}

std::optional<double> ProgressMeter::rate() const {
  if (!(pace().seconds > 0.0)) return std::nullopt;
  return pace().fresh / pace().seconds;
}

std::optional<double> ProgressMeter::seconds_left() const {
  // The rate of a kind is known after this share of its work, or after less that took long: at the beginning much of
  // the time goes into preparations.
  constexpr double enough_done = 0.2;
  constexpr double enough = 1.0;  // second, together with
  constexpr double least_done = 0.01;
  constexpr double long_enough = 30.0;  // seconds
  constexpr double negligible = 0.3;    // of what is left may go at the rate of the others
  double work = 0.0;
  double seconds = 0.0;
  double left = 0.0;
  double unknown = 0.0;
  double at_known_rates = 0.0;
  for (const Pace& p : paces_) {
    const double ahead = std::max(0.0, p.all - p.done);
    left += ahead;
    work += p.fresh;
    seconds += p.seconds;
    const bool known = p.fresh > 0.0 && (p.fresh >= enough_done * p.all || p.seconds >= long_enough ||
                                         (p.fresh >= least_done * p.all && p.seconds >= enough));
    if (known) {
      at_known_rates += ahead * p.seconds / p.fresh;
    } else {
      unknown += ahead;
    }
  }
  if (seconds < enough || unknown > negligible * left) return std::nullopt;
  return at_known_rates + unknown * seconds / work;
}

}  // namespace periscope::stacks
