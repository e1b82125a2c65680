#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "experiments/engine/run/progress.h"

namespace periscope::stacks {

/// Tracks progress in tasks and estimates the remaining time.
class ProgressMeter {
 public:
  using Clock = std::chrono::steady_clock;

  void start(std::int64_t tasks) {
    tasks_ = tasks;
    computed_ = cached_ = part_ = 0.0;
    start_ = Clock::now();
  }
  void step(int count) {
    computed_ += count;
    part_ = 0.0;
  }
  void cached(int count) { cached_ += count; }
  void part(double share) { part_ = share; }

  [[nodiscard]] std::int64_t tasks() const { return tasks_; }
  /// Tasks that are done, with the share of the one in hand.
  [[nodiscard]] double done() const { return computed_ + cached_ + part_; }
  /// Returns the share of all tasks that is done, 0 to 1; nothing before any were begun.
  [[nodiscard]] std::optional<double> share() const {
    return tasks_ == 0 ? std::nullopt : std::optional(std::min(1.0, done() / static_cast<double>(tasks_)));
  }
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  /// Returns computed tasks per second; nothing before the first.
  [[nodiscard]] std::optional<double> rate() const {
    const double elapsed = seconds();
    if (computed_ < 1.0 || !(elapsed > 0.0)) return std::nullopt;
    return (computed_ + part_) / elapsed;
  }
  /// Returns the time that the remaining tasks take at that rate.
  [[nodiscard]] std::optional<double> seconds_left() const {
    const std::optional<double> pace = rate();
    if (!pace) return std::nullopt;
    return std::max(0.0, static_cast<double>(tasks_) - done()) / *pace;
  }

 private:
  std::int64_t tasks_ = 0;
  double computed_ = 0.0;  ///< tasks, by this run
  double cached_ = 0.0;    ///< tasks
  double part_ = 0.0;      ///< of the task in hand
  Clock::time_point start_ = Clock::now();
};

}  // namespace periscope::stacks
