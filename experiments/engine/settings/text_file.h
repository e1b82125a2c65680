#pragma once

#include <string>

#include "sim/spec/model_spec.h"

namespace periscope::config {

/// Reads a file of text or token ids. Throws InputError (prefixed with `name`, if given) unless `path` is a regular
/// file that stays unchanged while it is read.
TextFile read_text_file(const std::string& path, const std::string& name = {});

/// Returns the text of an input of that kind. Throws std::logic_error if it was not read (read_texts).
const TextFile& text_of(const InputSpec& input);

}  // namespace periscope::config
