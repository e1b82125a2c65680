#pragma once

#include <array>
#include <chrono>
#include <optional>

#include "experiments/core/stacks/progress.h"

namespace periscope::app {

/// Shows how far a run is on standard error: on a terminal one line that is redrawn; elsewhere plain lines, one about
/// every tenth of the way and every few seconds. The time that is left is shown once it is known to about a factor of
/// two: for every kind of work that is a large part of what is left, some has been done. A signal asks it to stop.
class TerminalProgress : public stacks::Progress {
 public:
  /// Shows nothing if `quiet`.
  explicit TerminalProgress(bool quiet, stacks::CellJournal* journal = nullptr);
  ~TerminalProgress() override;
  TerminalProgress(const TerminalProgress&) = delete;
  TerminalProgress& operator=(const TerminalProgress&) = delete;

  void begin(const std::string& what, std::int64_t steps) override;
  void begin(const std::string& what, const stacks::Work& all) override;
  void next(stacks::WorkKind kind, double operations, const std::string& label) override;
  void step(const std::string& label, int count = 1) override;
  void kept(const std::string& label, int count) override;
  void part(double share) override;
  void finish(const std::string& what) override;
  void say(const std::string& lines) override;
  [[nodiscard]] std::shared_ptr<const void> resumable(const std::string& note) override;
  [[nodiscard]] bool stop_requested() const override;

 private:
  using Clock = std::chrono::steady_clock;
  /// The progress of one kind of work, in operations (or steps, if these are counted) and seconds.
  struct Pace {
    double all = 0.0;      ///< of the run
    double done = 0.0;     ///< of these
    double fresh = 0.0;    ///< of `done`, in this run: the rest an earlier one had done
    double seconds = 0.0;  ///< that `fresh` took
  };
  void start(const std::string& what, const stacks::Work& all, std::int64_t steps);
  void count(double work, bool fresh);
  [[nodiscard]] Pace& pace() { return paces_[static_cast<std::size_t>(kind_)]; }
  [[nodiscard]] std::optional<double> seconds_left() const;
  void draw(double share);
  void clear() const;

  bool quiet_;
  bool terminal_;
  std::string what_;
  std::int64_t steps_ = 0;  // 0: they are unlike and not counted
  std::int64_t steps_done_ = 0;
  std::array<Pace, 3> paces_;
  stacks::WorkKind kind_ = stacks::WorkKind::measurement;
  double operations_ = 1.0;  // of a step
  double part_ = 0.0;        // of the step in hand, what is in its pace already
  std::string label_;        // of the step that was done last, or is in hand
  int next_line_ = 0;
  Clock::time_point start_, last_draw_, last_event_;
};

}  // namespace periscope::app
