#pragma once

#include <functional>
#include <string>

namespace periscope {

/// Has `write` fill a file under a temporary name beside `path`, syncs it and renames it to `path`, creating
/// the folder if needed: `path` is complete or absent. Throws Error (run-time failure) naming the path.
void write_atomically(const std::string& path, const std::function<void(const std::string& temporary)>& write);

/// The same for a text.
void write_text_file(const std::string& path, const std::string& text);

}  // namespace periscope
