#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/checkpoint/tensor_files.h"

namespace periscope::stacks {

/// Name and SHA-256, in hex.
using NamedHash = std::pair<std::string, std::string>;

/// Returns the SHA-256 of every file that holds a checkpoint's tensors, as sha256sum prints them, sorted by name. It
/// reads the files that are open, even if others have taken their names. Call it before a run, because it reads all
/// files. Of tensors in memory there is one hash, "tensors", of their names, types, shapes and bytes.
std::vector<NamedHash> hashes_of_files(const TensorFiles& files);

}  // namespace periscope::stacks
