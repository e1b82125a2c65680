#pragma once

#include <string>

namespace periscope {

/// Returns the path of a checkpoint's config.json. If it is missing, throws InputError, which says whether `folder` is
/// a file of a checkpoint, an entry of Hugging Face's download cache, or a folder with weights in another format.
[[nodiscard]] std::string config_file_of(const std::string& folder);

/// Returns "; found "pytorch_model.bin": only safetensors files are supported; …", or "" for a folder without weights.
[[nodiscard]] std::string weights_in(const std::string& folder);

}  // namespace periscope
