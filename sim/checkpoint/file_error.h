#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"

namespace periscope {

/// "malformed: PATH: WHAT": the file breaks the rules of its own format. To be thrown.
[[nodiscard]] InputError malformed(const std::string& path, const std::string& what);

/// "unsupported: PATH: WHAT": the file may be valid, but Periscope does not read it. To be thrown.
[[nodiscard]] InputError unsupported(const std::string& path, const std::string& what);

/// A string of a file for a one-line message: in quotes, with escapes for all but printable ASCII, shortened if long.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// Throws InputError if a malformed `file` begins as another known format: a Git LFS pointer, a pickle, GGUF, a web
/// page.
void reject_other_formats(std::span<const std::byte> file, const std::string& path);

/// Remedy for an adapter (LoRA), for messages.
inline constexpr std::string_view merge_advice = "merge it with merge_and_unload() of PEFT and save the merged model";

/// Returns "; nearest is NAME" with the name of `names` that is nearest to `name`; "" without names.
[[nodiscard]] std::string nearest_name(const std::string& name, std::vector<std::string> names);

/// "WHERE: no tensor NAME; …" with the nearest of the names that there are. To be thrown.
[[nodiscard]] InputError no_such_tensor(const std::string& where, const std::string& name,
                                        std::vector<std::string> names);

}  // namespace periscope
