#pragma once

#include <string>

#include "experiments/engine/run/progress_meter.h"

namespace periscope::app {

/// Shows how far a run is on standard error: on a terminal one line that is redrawn; elsewhere plain lines, one about
/// every tenth of the way and every few seconds. The remaining time is shown after the first computed task. A signal
/// asks it to stop.
class TerminalProgress : public stacks::Progress {
 public:
  /// Shows nothing if `quiet`.
  explicit TerminalProgress(bool quiet, const cache::Cache* cache = nullptr);
  ~TerminalProgress() override;
  TerminalProgress(const TerminalProgress&) = delete;
  TerminalProgress& operator=(const TerminalProgress&) = delete;

  void begin(const std::string& what, std::int64_t tasks) override;
  void next(const std::string& label) override;
  void step(const std::string& label, int count = 1) override;
  void cached(const std::string& label, int count = 1) override;
  void part(double share) override;
  void finish(const std::string& what) override;
  void say(const std::string& lines) override;
  [[nodiscard]] bool stop_requested() const override;

 private:
  using Clock = stacks::ProgressMeter::Clock;
  void draw(bool within_task);
  void on_resumable(const std::string& folder) override;
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
