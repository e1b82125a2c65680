#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/checkpoint/tensor_files.h"

namespace periscope::stacks {

/// Name and SHA-256, in hex.
using NamedHash = std::pair<std::string, std::string>;

/// Returns the SHA-256 of every open file that holds a checkpoint's tensors, sorted by name. Of tensors in memory there
/// is one hash, "tensors", of their names, types, shapes and bytes.
std::vector<NamedHash> hashes_of_files(const TensorFiles& files);

}  // namespace periscope::stacks
