#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"

namespace periscope {

/// Returns the error "malformed: PATH: REASON", for a file that violates its format.
[[nodiscard]] InputError malformed(const std::string& path, const std::string& reason);

/// Returns the error "unsupported: PATH: REASON", for a file that may be valid, but that Periscope cannot read.
[[nodiscard]] InputError unsupported(const std::string& path, const std::string& reason);

/// Quotes a string of a file for a one-line message: escapes all but printable ASCII, shortens long strings.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// Throws InputError if `file` has another known format: a Git LFS pointer, a pickle, GGUF, or a web page.
void reject_other_formats(std::span<const std::byte> file, const std::string& path);

/// Advice for messages about adapters (LoRA).
inline constexpr std::string_view merge_advice = "merge it with merge_and_unload() of PEFT and save the merged model";

/// Returns "; nearest is NAME", where NAME is the element of `names` nearest to `name`; "" if `names` is empty.
[[nodiscard]] std::string nearest_name(const std::string& name, std::vector<std::string> names);

/// Returns the error "WHERE: no tensor NAME; …", which suggests the nearest of `names`.
[[nodiscard]] InputError no_such_tensor(const std::string& where, const std::string& name,
                                        std::vector<std::string> names);

}  // namespace periscope
