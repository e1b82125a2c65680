#include "sim/files/temporary_files.h"

#include <unistd.h>

#include <array>
#include <list>
#include <mutex>
#include <stdexcept>

namespace periscope {
namespace {

// Constant-initialized and lock-free, so that a signal handler may read them at any time.
std::array<std::atomic<const char*>, 64> slots{};
static_assert(std::atomic<const char*>::is_always_lock_free);

/// A copy of `path` that is never freed: a handler in another thread may still read it after its file is finished. A
/// process writes few files, so this costs little.
const char* kept_forever(const std::string& path) {
  static std::mutex mutex;
  static auto& names = *new std::list<std::string>;
  const std::scoped_lock lock(mutex);
  return names.emplace_back(path).c_str();
}

}  // namespace

RemovedAtExit::RemovedAtExit(const std::string& path) : slot_(nullptr) {
  const char* const name = kept_forever(path);
  for (auto& slot : slots) {
    const char* free = nullptr;
    if (!slot.compare_exchange_strong(free, name)) continue;
    slot_ = &slot;
    return;
  }
  throw std::logic_error("more temporary files at once than a signal handler knows of: " + path);
}

RemovedAtExit::~RemovedAtExit() { *slot_ = nullptr; }

void remove_temporary_files() noexcept {
  for (const auto& slot : slots) {
    if (const char* name = slot; name != nullptr) ::unlink(name);
  }
}

}  // namespace periscope
