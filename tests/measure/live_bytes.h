#pragma once

#include <cstddef>

namespace periscope::testing {

/// Bytes that were asked of operator new and not yet given back, in the whole program.
std::size_t live_bytes();

}  // namespace periscope::testing
