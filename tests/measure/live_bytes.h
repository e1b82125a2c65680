#pragma once

#include <cstddef>

namespace periscope::testing {

/// Returns the number of bytes allocated by operator new and not yet freed, in the whole program.
std::size_t live_bytes();

/// Makes operator new throw std::bad_alloc during its lifetime.
class NoMemory {
 public:
  NoMemory();
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
  ~NoMemory();
};

}  // namespace periscope::testing
