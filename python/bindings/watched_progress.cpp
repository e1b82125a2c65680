#include "python/bindings/watched_progress.h"

#include <chrono>
#include <utility>

namespace periscope::python {

void WatchedProgress::say(const std::string& lines) {
  const std::lock_guard lock(mutex_);
  said_.push_back(lines);
  changed_ = true;
}

bool WatchedProgress::recorded(const stacks::TrainingRecord& record) {
  if (!answers_records_) return true;
  std::unique_lock lock(mutex_);
  record_ = &record;
  answer_.reset();
  for_watcher_.notify_all();
  for_run_.wait(lock, [&] { return answer_.has_value() || stop_; });
  record_ = nullptr;
  return answer_.value_or(true);  // a stopped run asks stop_requested next, and stores its state
}

void WatchedProgress::done() {
  const std::lock_guard lock(mutex_);
  done_ = true;
  for_watcher_.notify_all();
}

void WatchedProgress::stop() {
  stop_ = true;
  const std::lock_guard lock(mutex_);
  for_run_.notify_all();
}

bool WatchedProgress::wait(int milliseconds) {
  std::unique_lock lock(mutex_);
  for_watcher_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                        [&] { return done_ || (record_ != nullptr && !answer_ && !stop_); });
  return done_;
}

std::optional<Snapshot> WatchedProgress::snapshot() {
  const std::lock_guard lock(mutex_);
  if (!changed_) return std::nullopt;
  changed_ = false;
  return Snapshot{.what = what_,
                  .label = label_,
                  .share = meter_.share().value_or(0.0),
                  .steps_done = meter_.done(),
                  .steps = meter_.tasks(),
                  .seconds = meter_.seconds(),
                  .seconds_left = meter_.seconds_left(),
                  .said = std::exchange(said_, {})};
}

const stacks::TrainingRecord* WatchedProgress::record() {
  const std::lock_guard lock(mutex_);
  return answer_ ? nullptr : record_;
}

void WatchedProgress::answer(bool go_on) {
  const std::lock_guard lock(mutex_);
  answer_ = go_on;
  for_run_.notify_all();
}

}  // namespace periscope::python
