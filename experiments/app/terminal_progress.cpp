#include "experiments/app/terminal_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include "experiments/app/standard_streams.h"
#include "experiments/app/stop_signals.h"

namespace periscope::app {

TerminalProgress::TerminalProgress(bool quiet, stacks::CellJournal* journal)
    : stacks::Progress(journal), quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1) {}

TerminalProgress::~TerminalProgress() { clear(); }

void TerminalProgress::clear() const {
  if (!quiet_ && terminal_) print_message("\r\033[K");
}

void TerminalProgress::say(const std::string& lines) {
  if (quiet_) return;
  clear();
  print_message(lines);
}

std::shared_ptr<const void> TerminalProgress::resumable(const std::string& note) {
  return std::make_shared<Resumable>(quiet_ ? "" : note);
}

bool TerminalProgress::stop_requested() const { return stop_signalled(); }

void TerminalProgress::begin(const std::string& what, std::int64_t steps) {
  clear();
  what_ = what;
  steps_ = steps;
  done_ = kept_ = 0;
  label_.clear();
  next_line_ = 0;
  start_ = last_draw_ = Clock::now();
}

void TerminalProgress::step(const std::string& label, int count) {
  done_ += count;
  label_ = label;
  if (!quiet_) draw(label, 0.0);
}

void TerminalProgress::kept(const std::string& label, int count) {
  kept_ += count;
  step(label, count);
}

void TerminalProgress::part(double share) {
  if (!quiet_ && steps_ > 0) draw(label_, share);
}

void TerminalProgress::draw(const std::string& label, double share) {
  const Clock::time_point now = Clock::now();
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double done = static_cast<double>(done_) + share;
  const double fresh = done - static_cast<double>(kept_);
  const double rate = fresh / elapsed;
  const double left = (static_cast<double>(steps_) - done) / rate;
  const std::string pace = fresh > 0.0 ? fmt::format(", {:.2g}/s, {:.0f} s left", rate, left) : "";
  const int digits = share > 0.0 ? 2 : 0;
  if (terminal_) {
    if (now - last_draw_ < std::chrono::milliseconds(100) && done_ < steps_) return;
    last_draw_ = now;
    constexpr int width = 24;
    const int filled = static_cast<int>(width * done / static_cast<double>(steps_));
    print_message(fmt::format("\r\033[K{} [{:=<{}}{: <{}}] {:.{}f}/{}{}  {}", what_, "", filled, "", width - filled,
                              done, digits, steps_, pace, label));
  } else if (const int tenth = static_cast<int>(10.0 * done / static_cast<double>(steps_)); tenth >= next_line_) {
    next_line_ = tenth + 1;
    const std::string of = label.empty() ? "" : fmt::format(" ({})", label);
    print_message(fmt::format("{}: {:.{}f}/{}{}{}\n", what_, done, digits, steps_, of, pace));
  }
}

}  // namespace periscope::app
