#pragma once

#include <string>

#include "sim/spec/model_spec.h"

namespace periscope::config {

/// Reads a file of text or token ids. Throws InputError, which begins with `name` if there is one, for a path of no
/// regular file and for a file that changes while it is read.
TextFile read_text_file(const std::string& path, const std::string& name = {});

}  // namespace periscope::config
