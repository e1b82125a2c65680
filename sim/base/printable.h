#pragma once

#include <string>
#include <string_view>

namespace periscope {

/// Whether `printable` preserves line breaks and tabs.
enum class Layout {
  line,   ///< escaped: the text is part of one line
  lines,  ///< preserved
};

/// Escapes text for display on a terminal. ASCII control characters and invalid UTF-8 bytes become e.g. "\x1b".
/// Unicode control characters (C1, bidirectional marks and overrides, line separators) become e.g. "\u202e". All other
/// characters are unchanged, including backslashes.
[[nodiscard]] std::string printable(std::string_view text, Layout layout = Layout::line);

/// Returns printable(text) for a one-line message. Text over 200 bytes is truncated and its length is appended.
[[nodiscard]] std::string shortened(std::string_view text);

}  // namespace periscope
