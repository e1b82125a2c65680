#pragma once

#include <string>
#include <string_view>

namespace periscope {

/// What of a text's layout may reach a terminal.
enum class Layout {
  line,   ///< nothing: the text is a part of one line
  lines,  ///< line breaks and tabs
};

/// `text` as it may be shown to people: what would command a terminal, or show other than it is, is escaped. Control
/// characters and bytes that are no UTF-8 become "\x1b", the controls of Unicode (C1, bidirectional marks and
/// overrides, line separators) "\u202e". All else stays as it is, backslashes too.
[[nodiscard]] std::string printable(std::string_view text, Layout layout = Layout::line);

/// The same for a message of one line: of what is longer than 200 bytes the beginning, with its length in bytes.
[[nodiscard]] std::string shortened(std::string_view text);

}  // namespace periscope
