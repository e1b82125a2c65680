#include "experiments/command/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include "experiments/results/standard_streams.h"

namespace periscope {

Progress::Progress(bool quiet, std::function<bool()> stop, CellJournal* journal)
    : quiet_(quiet), stop_(std::move(stop)), journal_(journal), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { clear(); }

void Progress::clear() const {
  if (!quiet_ && terminal_) print_message("\r\033[K");
}

void Progress::begin(const std::string& what, int steps) {
  clear();
  what_ = what;
  steps_ = steps;
  done_ = 0;
  next_line_ = 0;
  start_ = last_draw_ = Clock::now();
}

void Progress::step(const std::string& label, int count) {
  done_ += count;
  if (!quiet_) draw(label);
}

void Progress::draw(const std::string& label) {
  const Clock::time_point now = Clock::now();
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double rate = done_ / elapsed;
  const double left = (steps_ - done_) / rate;
  if (terminal_) {
    if (now - last_draw_ < std::chrono::milliseconds(100) && done_ < steps_) return;
    last_draw_ = now;
    constexpr int width = 24;
    const int filled = static_cast<int>(static_cast<long>(width) * done_ / steps_);
    print_message(fmt::format("\r\033[K{} [{:=<{}}{: <{}}] {}/{}  {:.1f}/s  {:.0f} s left  {}", what_, "", filled, "",
                              width - filled, done_, steps_, rate, left, label));
  } else if (const long tenth = 10L * done_ / steps_; tenth >= next_line_) {
    next_line_ = static_cast<int>(tenth) + 1;
    print_message(fmt::format("{}: {}/{} ({}), {:.1f}/s, {:.0f} s left\n", what_, done_, steps_, label, rate, left));
  }
}

}  // namespace periscope
