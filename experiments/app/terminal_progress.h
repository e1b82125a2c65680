#pragma once

#include <chrono>

#include "experiments/core/stacks/progress.h"

namespace periscope::app {

/// Shows a known number of steps on standard error: on a terminal one line that is redrawn, with rate and time left;
/// elsewhere a plain line about every tenth of the way. A signal asks it to stop.
class TerminalProgress : public stacks::Progress {
 public:
  /// Shows nothing if `quiet`.
  explicit TerminalProgress(bool quiet, stacks::CellJournal* journal = nullptr);
  ~TerminalProgress() override;
  TerminalProgress(const TerminalProgress&) = delete;
  TerminalProgress& operator=(const TerminalProgress&) = delete;

  void begin(const std::string& what, std::int64_t steps) override;
  void step(const std::string& label, int count = 1) override;
  void kept(const std::string& label, int count) override;
  void part(double share) override;
  void say(const std::string& lines) override;
  [[nodiscard]] std::shared_ptr<const void> resumable(const std::string& note) override;
  [[nodiscard]] bool stop_requested() const override;

 private:
  using Clock = std::chrono::steady_clock;
  void draw(const std::string& label, double share);
  void clear() const;

  bool quiet_;
  bool terminal_;
  std::string what_;
  std::int64_t steps_ = 0;
  std::int64_t done_ = 0;
  std::int64_t kept_ = 0;  // of done_
  std::string label_;      // of the step that was done last
  int next_line_ = 0;
  Clock::time_point start_, last_draw_;
};

}  // namespace periscope::app
