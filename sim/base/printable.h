#pragma once

#include <string>
#include <string_view>

namespace periscope {

/// Selects which parts of a text's layout may reach a terminal.
enum class Layout {
  line,   ///< nothing: the text is a part of one line
  lines,  ///< line breaks and tabs
};

/// `text` as it may be shown to people: what would command a terminal, or show other than it is, is escaped. Control
/// characters and bytes that are no UTF-8 become "\x1b", the controls of Unicode (C1, bidirectional marks and
/// overrides, line separators) "\u202e". All else stays as it is, backslashes too.
[[nodiscard]] std::string printable(std::string_view text, Layout layout = Layout::line);

/// Makes a text printable as a message of one line; of more than 200 bytes it returns the beginning and the length in
/// bytes.
[[nodiscard]] std::string shortened(std::string_view text);

}  // namespace periscope
