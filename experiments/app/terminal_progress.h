#pragma once

#include <string>

#include "experiments/engine/run/progress.h"

namespace periscope::app {

/// Shows progress on standard error. On a terminal it redraws one line; otherwise it prints a line at every tenth of
/// the work and every few seconds. From the second task with the same label, it also shows the remaining time.
class TerminalProgress : public stacks::Progress {
 public:
  /// Prints nothing if `quiet`.
  explicit TerminalProgress(bool quiet, const cache::Cache* cache = nullptr);
  ~TerminalProgress() override;
  TerminalProgress(const TerminalProgress&) = delete;
  TerminalProgress& operator=(const TerminalProgress&) = delete;

  void say(const std::string& lines) override;
  [[nodiscard]] bool stop_requested() const override;

 private:
  using Clock = stacks::ProgressMeter::Clock;
  void on_report(Report change) override;
  void draw();
  void on_resumable(const std::string& folder) override;
  void clear() const;

  bool quiet_;
  bool terminal_;
  int next_line_ = 0;
  Clock::time_point start_, last_draw_;
};

}  // namespace periscope::app
