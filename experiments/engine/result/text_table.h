#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace periscope::dataset {

/// Columns of a terminal that a table for people takes at most.
inline constexpr std::size_t table_width = 100;

/// A table for people: every column is as wide as its widest cell, or narrower where the table would be too
/// wide: then cells and titles go on in the next line, the widest column first, and what even so has no room follows
/// in a table below, beside the first column once more. A title that begins with ">"
/// makes a column of numbers, right-aligned.
class TextTable {
 public:
  explicit TextTable(const std::vector<std::string>& titles);
  /// Cells that are missing at the end stay empty. Cells may hold UTF-8, and colours as fmt writes them. The sign of a
  /// NaN says nothing and is left out.
  void add(std::vector<std::string> cells);
  /// A title of its own for one row: `words` begin in the second column and widen none.
  void add_note(std::string first, std::string words);
  /// Lines that end in "\n" and not in spaces, at most `width` columns wide; `indent` spaces before each.
  [[nodiscard]] std::string text(std::size_t indent = 0, std::size_t width = table_width) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool note;
  };
  /// The widths of the columns: `wide` if every cell is one line, `narrow` if cells are broken between words as often
  /// as possible.
  struct Widths {
    std::vector<std::size_t> wide, narrow;
  };
  [[nodiscard]] Widths widths() const;
  /// The first column and those from `begin` to `end`.
  [[nodiscard]] TextTable part(std::size_t begin, std::size_t end) const;
  [[nodiscard]] std::string lines(std::size_t indent, std::size_t room) const;
  std::vector<bool> right_;
  std::vector<Row> rows_;
};

/// Columns of a terminal that UTF-8 text takes, without escape sequences for colours.
std::size_t printed_width(std::string_view text);

/// One line as several of at most `width` columns, broken at spaces, but not beside "±", "/" or "=", and within a word
/// that is longer than a line. A line that fits is left as it is.
std::vector<std::string> broken(std::string_view line, std::size_t width);

/// `text` with every line that is wider than table_width broken: it continues below its last column, which begins after
/// two spaces or more, or two columns further in than it begins where that leaves less than a third of the width.
std::string within_table_width(std::string_view text);

/// A number in a format of fmt's; "–" for NaN, "overflow" for infinity.
std::string number(double value, const char* format = "{:.4g}");

/// A value with its standard error, "8.747 ± 0.1", where there is one: a single seed has none, and that of numbers
/// whose squares overflow is none. "–" for a value that is NaN. The formats are those of fmt.
std::string with_error(double value, double error, const char* format = "{:.4g}", const char* error_format = "{:.1g}");

/// `text` without the terminal's escape sequences for colours: ESC [ digits and semicolons m.
std::string without_colours(const std::string& text);

}  // namespace periscope::dataset
