#pragma once

#include <string>

#include "experiments/engine/run/progress_meter.h"

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
  using Clock = stacks::ProgressMeter::Clock;
  void start(const std::string& what, const stacks::Work& all, std::int64_t steps);
  void draw(bool within_step);
  void clear() const;

  bool quiet_;
  bool terminal_;
  std::string what_;
  stacks::ProgressMeter meter_;
  std::string label_;  // of the step that was done last, or is in hand
  int next_line_ = 0;
  Clock::time_point start_, last_draw_;
};

}  // namespace periscope::app
