#pragma once

#include <atomic>
#include <string>

namespace periscope {

/// While this lives, a process that has to end removes the file at `path`, if there is one.
class RemovedAtExit {
 public:
  /// Throws std::logic_error if 64 are alive.
  explicit RemovedAtExit(const std::string& path);
  RemovedAtExit(const RemovedAtExit&) = delete;
  RemovedAtExit& operator=(const RemovedAtExit&) = delete;
  ~RemovedAtExit();

 private:
  std::atomic<const char*>* slot_;
};

/// Removes the files of every RemovedAtExit that is alive, in any thread. For a signal handler that ends the process
/// without returning: it makes only calls that are safe there.
void remove_temporary_files() noexcept;

}  // namespace periscope
