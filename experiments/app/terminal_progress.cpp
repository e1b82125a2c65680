#include "experiments/app/terminal_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "experiments/app/standard_streams.h"
#include "experiments/app/stop_signals.h"

namespace periscope::app {
namespace {

std::string words_of_seconds(double seconds) {
  if (seconds < 100.0) return fmt::format("{:.0f} s", seconds);
  if (seconds < 6000.0) return fmt::format("{:.0f} min", seconds / 60.0);
  if (seconds < 172'800.0) return fmt::format("{:.0f} h", seconds / 3600.0);
  return fmt::format("{:.0f} days", seconds / 86'400.0);
}

}  // namespace

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

void TerminalProgress::start(const std::string& what, const stacks::Work& all, std::int64_t steps) {
  clear();
  what_ = what;
  steps_ = steps;
  steps_done_ = 0;
  paces_ = {};
  for (std::size_t i = 0; i < paces_.size(); ++i) paces_[i].all = all.operations[i];
  next_line_ = 0;
  start_ = last_draw_ = last_event_ = Clock::now();
  next(stacks::WorkKind::measurement, 1.0, "");
}

void TerminalProgress::begin(const std::string& what, std::int64_t steps) {
  stacks::Work all;
  all.of(stacks::WorkKind::measurement) = static_cast<double>(steps);
  start(what, all, steps);
}

void TerminalProgress::begin(const std::string& what, const stacks::Work& all) { start(what, all, 0); }

void TerminalProgress::next(stacks::WorkKind kind, double operations, const std::string& label) {
  label_ = label;
  kind_ = kind;
  operations_ = operations;
  part_ = 0.0;
}

/// Counts what was done since the last event.
void TerminalProgress::count(double work, bool fresh) {
  const Clock::time_point now = Clock::now();
  pace().done += work;
  if (fresh) {
    pace().fresh += work;
    pace().seconds += std::chrono::duration<double>(now - last_event_).count();
  }
  last_event_ = now;
}

void TerminalProgress::step(const std::string& label, int count_of_steps) {
  count(operations_ * (count_of_steps - part_), true);
  part_ = 0.0;
  steps_done_ += count_of_steps;
  label_ = label;
  draw(0.0);
}

void TerminalProgress::kept(const std::string& label, int count_of_steps) {
  count(operations_ * (count_of_steps - part_), false);
  part_ = 0.0;
  steps_done_ += count_of_steps;
  label_ = label;
  draw(0.0);
}

void TerminalProgress::part(double share) {
  count(operations_ * (share - part_), true);
  part_ = share;
  draw(share);
}

void TerminalProgress::finish(const std::string& what) {
  constexpr auto worth_saying = std::chrono::seconds(5);
  if (Clock::now() - start_ >= worth_saying) say(fmt::format("{}: {}\n", what_, what));
}

/// Nothing while it is not known to about a factor of two.
std::optional<double> TerminalProgress::seconds_left() const {
  constexpr double enough = 1.0;       // second of a kind tells its rate, and so does
  constexpr double enough_done = 0.2;  // of it
  constexpr double negligible = 0.3;   // of what is left may go at the rate of the others
  double work = 0.0;
  double seconds = 0.0;
  double left = 0.0;
  double unknown = 0.0;
  double at_known_rates = 0.0;
  for (const Pace& p : paces_) {
    const double ahead = std::max(0.0, p.all - p.done);
    left += ahead;
    work += p.fresh;
    seconds += p.seconds;
    const bool known = p.fresh > 0.0 && (p.seconds >= enough || p.fresh >= enough_done * p.all);
    if (known) {
      at_known_rates += ahead * p.seconds / p.fresh;
    } else {
      unknown += ahead;
    }
  }
  if (seconds < enough || unknown > negligible * left) return std::nullopt;
  return at_known_rates + unknown * seconds / work;
}

void TerminalProgress::draw(double share) {
  double all = 0.0;
  double done = 0.0;
  for (const Pace& p : paces_) {
    all += p.all;
    done += std::min(p.done, p.all);
  }
  if (quiet_ || !(all > 0.0)) return;
  const Clock::time_point now = Clock::now();
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double since = std::chrono::duration<double>(now - last_draw_).count();
  const double whole = std::min(1.0, done / all);
  const int tenth = static_cast<int>(10.0 * whole);
  constexpr double redraw = 0.1;      // seconds between two pictures of a terminal
  constexpr double first_line = 1.5;  // seconds to the first plain line, if no tenth is done
  constexpr double next_line = 4.0;   // between two, and in a long run
  constexpr double part_of_run = 0.05;
  const double wait = next_line_ == 0 && last_draw_ == start_ ? first_line : std::max(next_line, part_of_run * elapsed);
  if (terminal_ ? since < redraw && whole < 1.0 : tenth < next_line_ && since < wait) return;
  last_draw_ = now;
  next_line_ = std::max(next_line_, tenth + 1);
  const std::optional<double> left = whole < 1.0 ? seconds_left() : std::nullopt;
  const std::string time = left ? fmt::format(", about {} left", words_of_seconds(*left)) : "";
  std::string far = fmt::format("{:.0f} %", 100.0 * whole);
  if (steps_ > 0) {
    const double steps = static_cast<double>(steps_done_) + share;
    far = fmt::format("{:.{}f}/{}", steps, share > 0.0 ? 2 : 0, steps_);
    if (elapsed > 1.0 && pace().seconds > 0.0) far += fmt::format(", {:.2g}/s", pace().fresh / pace().seconds);
  }
  if (terminal_) {
    constexpr int width = 24;
    const int filled = static_cast<int>(width * whole);
    print_message(
        fmt::format("\r\033[K{} [{:=<{}}{: <{}}] {}{}  {}", what_, "", filled, "", width - filled, far, time, label_));
  } else {
    const std::string of = label_.empty() ? "" : fmt::format(" ({})", label_);
    print_message(fmt::format("{}: {}{}{}\n", what_, far, of, time));
  }
}

}  // namespace periscope::app
