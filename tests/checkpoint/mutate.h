#pragma once

#include <random>
#include <string>

namespace periscope::testing {

/// Returns a copy of a safetensors file with one to four random changes of bits, bytes, digits, numbers or lengths. Two
/// thirds of them are in the length field and the header.
[[nodiscard]] std::string mutated(const std::string& bytes, std::mt19937_64& random);

/// Outcome of parsing a file and reading its tensors.
enum class ReadOutcome { rejected, rejected_when_read, read };

/// Parses and reads the bytes. Exceptions other than InputError propagate.
[[nodiscard]] ReadOutcome read_everything(const std::string& bytes);

}  // namespace periscope::testing
