#pragma once

#include <string>

namespace periscope {

/// The path of a checkpoint's config.json. Throws InputError if there is none, and says what was found: a file of the
/// folder, a model of Hugging Face's download cache (with its files in snapshots/HASH), weights in another format.
[[nodiscard]] std::string config_file_of(const std::string& folder);

/// "; it has "pytorch_model.bin": only safetensors files are read, …" for a folder with weights of any format, else "".
[[nodiscard]] std::string weights_in(const std::string& folder);

}  // namespace periscope
