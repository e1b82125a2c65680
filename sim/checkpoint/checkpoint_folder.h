#pragma once

#include <string>

namespace periscope {

/// The path of a checkpoint's config.json. Throws InputError where there is none, and says what is there instead: a
/// file (of the folder that was meant), a model of Hugging Face's download cache (whose files are in its folder
/// snapshots/HASH), weights in another format than safetensors, nothing.
[[nodiscard]] std::string config_file_of(const std::string& folder);

/// "; it has "pytorch_model.bin": only safetensors files are read, …": the weights of any format that are in a folder,
/// for messages. "" if there are none.
[[nodiscard]] std::string weights_in(const std::string& folder);

}  // namespace periscope
