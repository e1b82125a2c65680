#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace periscope {

class CellJournal;

/// Thrown from the depth of a function that was asked to stop; until_stopped catches it at the top.
struct Stopped {};

/// Calls f; true if it was stopped.
template <class F>
bool until_stopped(const F& f) {
  try {
    f();
    return false;
  } catch (const Stopped&) {
    return true;
  }
}

/// What a function that runs for long and its caller have to say to each other: how far it is, whether it should stop,
/// and where it keeps what is finished. A known number of steps is shown on standard error: on a terminal one line
/// that is redrawn, with rate and time left; elsewhere a plain line about every tenth of the way.
class Progress {
 public:
  /// Shows nothing, is never asked to stop, keeps nothing.
  Progress() = default;
  /// Shows nothing if `quiet`. `stop` says whether the caller wants the function to end early; it may be called from
  /// any thread. `journal`, if there is one, outlives this.
  explicit Progress(bool quiet, std::function<bool()> stop = {}, CellJournal* journal = nullptr);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  /// Begins to count the `steps` of `what`; the line of what was counted before is done.
  void begin(const std::string& what, std::int64_t steps);
  /// `count` steps are done; `label` says what they belonged to.
  void step(const std::string& label, int count = 1);
  /// `count` steps had been done by an earlier run: they are behind, but say nothing about the rate.
  void kept(const std::string& label, int count);
  /// This share of the next step is done, for steps that take long. One thread at a time.
  void part(double share);

  /// A function that sees this ends soon, with a result that is marked stopped_early.
  [[nodiscard]] bool stop_requested() const { return stop_ && stop_(); }
  void throw_if_stop_requested() const {
    if (stop_requested()) throw Stopped();
  }
  /// Finished cells, to be asked before a cell is computed and told after; null if none are kept.
  [[nodiscard]] CellJournal* journal() const { return journal_; }
  [[nodiscard]] bool quiet() const { return quiet_; }

 private:
  using Clock = std::chrono::steady_clock;
  void draw(const std::string& label, double share);
  void clear() const;

  bool quiet_ = true;
  std::function<bool()> stop_;
  CellJournal* journal_ = nullptr;
  bool terminal_ = false;
  std::string what_;
  std::int64_t steps_ = 0;
  std::int64_t done_ = 0;
  std::int64_t kept_ = 0;  // of done_
  std::string label_;      // of the step that was done last
  int next_line_ = 0;
  Clock::time_point start_, last_draw_;
};

}  // namespace periscope
