#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace periscope::app {

/// Called once, before any file is opened. Puts something on those of the descriptors 0, 1 and 2 that are closed, so
/// that no file gets one of them and then what is meant for people; reading 0 and writing to 1 and 2 fails as before. A
/// pipe that nobody reads, and a file longer than allowed, become errors of the write instead of ending the process.
void prepare_standard_streams();

/// Writes to standard output, at once. Throws Error (run-time failure) if it does not take everything.
void print_result(std::string_view text);

/// The result of --json: one object in one line on standard output. Text that is no UTF-8 is replaced. Throws as
/// print_result does.
void print_json(const nlohmann::ordered_json& json);

/// Writes to standard error: progress, tables, messages. What it does not take is lost, and harms nothing.
void print_message(std::string_view text) noexcept;

/// True if standard error is a terminal and NO_COLOR is not set.
bool use_colour();

}  // namespace periscope::app
