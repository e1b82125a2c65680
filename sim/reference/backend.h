#pragma once

#include <memory>

#include "sim/core/backend.h"

namespace periscope {

/// The reference implementation of every op: plain loops in double, written for simplicity rather than speed.
std::unique_ptr<Backend> make_reference_backend();

}  // namespace periscope
