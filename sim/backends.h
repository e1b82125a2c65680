#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "sim/core/backend.h"

namespace periscope {

/// Names for --device, in the order in which `periscope list` shows them.
std::span<const std::string_view> device_names();

/// Creates the backend called `device`; cuda-tf32 is cuda with f32 matrix products in TF32. Throws ConfigError if
/// this build has no backend of that name, and Error (run-time failure) if the machine lacks the device.
std::unique_ptr<Backend> make_backend(std::string_view device);

/// Returns the instruction set used for `device`: cpu_level() (sim/cpu/levels.h) for cpu, and the compiler's target
/// for other devices. Throws the same errors as cpu_level.
std::string_view instructions_of(std::string_view device);

}  // namespace periscope
