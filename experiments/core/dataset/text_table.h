#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace periscope::dataset {

/// A table for people: every column is as wide as its widest cell. A title that begins with ">" makes a column of
/// numbers, right-aligned.
class TextTable {
 public:
  explicit TextTable(const std::vector<std::string>& titles);
  /// Cells that are missing at the end stay empty. Cells may hold UTF-8, and colours as fmt writes them. The sign of a
  /// NaN says nothing and is left out.
  void add(std::vector<std::string> cells);
  /// A title of its own for one row: `words` begin in the second column and widen none.
  void add_note(std::string first, std::string words);
  /// Lines that end in "\n" and not in spaces; `indent` spaces before each.
  [[nodiscard]] std::string text(std::size_t indent = 0) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool note;
  };
  std::vector<bool> right_;
  std::vector<Row> rows_;
};

/// Columns of a terminal that UTF-8 text takes, without escape sequences for colours.
std::size_t printed_width(std::string_view text);

/// `text` without the terminal's escape sequences for colours: ESC [ digits and semicolons m.
std::string without_colours(const std::string& text);

}  // namespace periscope::dataset
