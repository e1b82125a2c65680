#pragma once

#include <random>
#include <string>

namespace periscope::testing {

/// A copy of a safetensors file with one to four random changes: bits flipped, bytes set, put in, taken out, moved or
/// repeated, the end cut off, digits and numbers of the header replaced by hostile ones, the header's length changed.
/// Two thirds of the changes are within the length and the header, where they matter.
[[nodiscard]] std::string mutated(const std::string& bytes, std::mt19937_64& random);

/// How a file ended that was parsed and, if it was accepted, read in every way.
enum class Ending { refused, refused_when_read, read };

/// Parses and reads the bytes. Whatever is no InputError gets out.
[[nodiscard]] Ending read_everything(const std::string& bytes);

}  // namespace periscope::testing
