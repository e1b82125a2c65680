#pragma once

#include <cstddef>

namespace periscope::testing {

/// Bytes that were asked of operator new and not yet given back, in the whole program.
std::size_t live_bytes();

/// While this lives, operator new throws std::bad_alloc.
class NoMemory {
 public:
  NoMemory();
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
  ~NoMemory();
};

}  // namespace periscope::testing
