#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace periscope::app {

/// Call once, before any file is opened. Opens /dev/null on each closed descriptor among 0, 1 and 2, so that no opened
/// file receives messages by accident; using these descriptors still fails. Ignores SIGPIPE and SIGXFSZ, so that a
/// closed pipe or a file-size limit causes a write error instead of ending the process.
void prepare_standard_streams();

/// Writes to standard output without buffering. Throws Error (run-time failure) if the write is incomplete.
void print_result(std::string_view text);

/// Prints the result of --json as one line. Replaces invalid UTF-8. Throws like print_result.
void print_json(const nlohmann::ordered_json& json);

/// Writes progress, tables or messages to standard error. Ignores write errors.
void print_message(std::string_view text) noexcept;

/// Returns true if standard error is a terminal and NO_COLOR is not set.
bool use_colour();

}  // namespace periscope::app
