#include "experiments/app/terminal_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "experiments/app/standard_streams.h"
#include "experiments/app/stop_signals.h"
#include "sim/base/printable.h"

namespace periscope::app {
namespace {

std::string duration_text(double seconds) {
  if (seconds < 100.0) return fmt::format("{:.0f} s", seconds);
  if (seconds < 6000.0) return fmt::format("{:.0f} min", seconds / 60.0);
  if (seconds < 172'800.0) return fmt::format("{:.0f} h", seconds / 3600.0);
  return fmt::format("{:.0f} days", seconds / 86'400.0);
}

}  // namespace

TerminalProgress::TerminalProgress(bool quiet, const cache::Cache* cache)
    : quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1) {
  use_cache(cache);
}

TerminalProgress::~TerminalProgress() { clear(); }

void TerminalProgress::clear() const {
  if (!quiet_ && terminal_) print_message("\r\033[K");
}

void TerminalProgress::say(const std::string& lines) {
  if (quiet_) return;
  clear();
  print_message(lines);
}

void TerminalProgress::on_resumable(const std::string& folder) {
  app::set_resumable(quiet_ ? "" : fmt::format("stopped; the same command resumes from {}\n", printable(folder)));
}

bool TerminalProgress::stop_requested() const { return stop_signal_received(); }

void TerminalProgress::on_report(Report change) {
  constexpr auto reported_from = std::chrono::seconds(5);  // shorter runs print no final line
  if (change == Report::begun) {
    clear();
    next_line_ = 0;
    start_ = last_draw_ = Clock::now();
  } else if (change == Report::finishing) {
    if (Clock::now() - start_ >= reported_from) say(fmt::format("{}: {}\n", what_, label_));
  } else if (change != Report::next) {
    draw();
  }
}

void TerminalProgress::draw() {
  const std::optional<double> share = meter_.share();
  if (quiet_ || !share) return;
  const Clock::time_point now = Clock::now();
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double since = std::chrono::duration<double>(now - last_draw_).count();
  const int tenth = static_cast<int>(10.0 * *share);
  constexpr double redraw = 0.1;        // seconds between two redraws on a terminal
  constexpr double first_line = 1.5;    // seconds to the first plain line, unless a tenth of the work is done earlier
  constexpr double next_line = 4.0;     // minimum seconds between later plain lines
  constexpr double part_of_run = 0.05;  // in long runs, minimum interval as a fraction of the elapsed time
  const double wait = next_line_ == 0 && last_draw_ == start_ ? first_line : std::max(next_line, part_of_run * elapsed);
  if (terminal_ ? since < redraw && *share < 1.0 : tenth < next_line_ && since < wait) return;
  last_draw_ = now;
  next_line_ = std::max(next_line_, tenth + 1);
  const std::optional<double> left = *share < 1.0 ? meter_.seconds_left() : std::nullopt;
  const std::string time = left ? fmt::format(", about {} left", duration_text(*left)) : "";
  std::string count = fmt::format("{:.{}f}/{}", meter_.done(), meter_.part > 0.0 ? 2 : 0, meter_.tasks);
  if (const auto rate = meter_.rate(); elapsed > 1.0 && rate) count += fmt::format(", {:.2g}/s", *rate);
  if (terminal_) {
    constexpr int width = 24;
    const int filled = static_cast<int>(width * *share);
    print_message(fmt::format("\r\033[K{} [{:=<{}}{: <{}}] {}{}  {}", what_, "", filled, "", width - filled, count,
                              time, label_));
  } else {
    const std::string label = label_.empty() ? "" : fmt::format(" ({})", label_);
    print_message(fmt::format("{}: {}{}{}\n", what_, count, label, time));
  }
}

}  // namespace periscope::app
