#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include "experiments/engine/run/progress.h"

namespace periscope::stacks {

/// Counts what Progress is told, and says how far a run is and how long it still takes.
class ProgressMeter {
 public:
  using Clock = std::chrono::steady_clock;

  /// Begins to count work whose `steps` are alike, or unlike and not counted (0).
  void start(const Work& all, std::int64_t steps);
  void next(WorkKind kind, double operations);
  void step(int count);
  void kept(int count);
  void part(double share);

  /// The share of all work that is done, 0 to 1; nothing before anything was begun.
  [[nodiscard]] std::optional<double> share() const;
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  /// Steps that are done, with the share of the one in hand.
  [[nodiscard]] double steps_done() const { return static_cast<double>(steps_done_) + part_; }
  /// Steps per second of the kind in hand; nothing before one took time.
  [[nodiscard]] std::optional<double> rate() const;
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  /// Nothing while it is not known to about a factor of two: until, for every kind of work that is a large part of what
  /// is left, some has been done.
  [[nodiscard]] std::optional<double> seconds_left() const;

 private:
  /// The progress of one kind of work, in operations (or steps, if these are counted) and seconds.
  struct Pace {
    double all = 0.0;      ///< of the run
    double done = 0.0;     ///< of these
    double fresh = 0.0;    ///< of `done`, in this run: the rest an earlier one had done
    double seconds = 0.0;  ///< that `fresh` took
  };
  void count(double work, bool fresh);
  [[nodiscard]] const Pace& pace() const { return paces_[static_cast<std::size_t>(kind_)]; }

  std::int64_t steps_ = 0;
  std::int64_t steps_done_ = 0;
  std::array<Pace, identifiers<WorkKind>.size()> paces_;
  WorkKind kind_ = WorkKind::measurement;
  double operations_ = 1.0;  // of a step
  double part_ = 0.0;        // of the step in hand, what is in its pace already
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_event_ = start_;
};

}  // namespace periscope::stacks
