#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "sim/core/backend.h"

namespace periscope {

/// Names for --device, in the order in which `periscope list` shows them.
std::span<const std::string_view> device_names();

/// The backend called `device`; cuda-tf32 is cuda with matrix products of f32 in TF32. Throws ConfigError for an
/// unknown name and for one that this build does not have, and Error with the code of a run-time failure where the
/// machine has no such device.
std::unique_ptr<Backend> make_backend(std::string_view device);

/// The instruction set that computes for `device`: cpu has the level that was chosen (sim/cpu/levels.h), or throws
/// ConfigError as that; the others have what the program is compiled for.
std::string_view instructions_of(std::string_view device);

}  // namespace periscope
