#pragma once

#include <memory>

#include "sim/core/backend.h"

namespace periscope {

/// Plain loops in double: the definition of every op, written to be simple and not to be fast.
std::unique_ptr<Backend> make_reference_backend();

}  // namespace periscope
