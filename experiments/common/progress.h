#pragma once

#include <chrono>
#include <string>

namespace periscope {

/// Progress of a known number of steps, on standard error: on a terminal one line that is redrawn, with
/// rate and time left; elsewhere a plain line about every tenth of the way. Silent if `quiet`.
class Progress {
 public:
  Progress(std::string what, int steps, bool quiet);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  /// `count` steps are done; `label` says what they belonged to.
  void step(const std::string& label, int count = 1);

 private:
  using Clock = std::chrono::steady_clock;
  void draw(const std::string& label);

  std::string what_;
  int steps_;
  int done_ = 0;
  int next_line_ = 0;
  bool quiet_;
  bool terminal_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_draw_ = start_;
};

}  // namespace periscope
