#pragma once

#include <memory>

#include "sim/core/backend.h"

namespace periscope {

/// Naive loops in double: the definition of every op, and slow on purpose.
std::unique_ptr<Backend> make_reference_backend();

}  // namespace periscope
