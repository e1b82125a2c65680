#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace periscope::dataset {

/// The largest width of a table for people, in columns of a terminal.
inline constexpr std::size_t table_width = 100;

/// A table for people. A column is as wide as its widest cell; where the table would be too wide, cells and titles
/// continue in the next line, the widest column first, and columns that still have no room follow in a table below,
/// next to the first column. A title that begins with ">" makes a column of numbers, right-aligned.
class TextTable {
 public:
  explicit TextTable(const std::vector<std::string>& titles);
  /// Missing cells at the end stay empty. Cells may hold UTF-8, and colours as fmt writes them. The sign of a NaN is
  /// left out.
  void add(std::vector<std::string> cells);
  /// A row whose `words` begin in the second column and widen none.
  void add_note(std::string first, std::string words);
  /// Lines without trailing spaces, at most `width` columns wide, with `indent` spaces before each.
  [[nodiscard]] std::string text(std::size_t indent = 0, std::size_t width = table_width) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool note;
  };
  /// Columns that stand next to each other, the first one among them, and their widths: `wide` if every cell is one
  /// line, `narrow` if cells are broken wherever they can be.
  struct Part {
    std::vector<std::size_t> columns;
    bool notes;
    std::vector<std::size_t> wide = {}, narrow = {};
  };
  void measure(Part& part) const;
  [[nodiscard]] std::string lines(const Part& part, std::size_t indent, std::size_t room) const;
  std::vector<bool> right_;
  std::vector<Row> rows_;
};

/// One line as several of at most `width` columns, broken at spaces, but not next to "±", "/", "=" or "≤", and within a
/// word that is longer than a line. A line that fits is unchanged.
/// All lines but the first have `later` columns, if that is given.
std::vector<std::string> broken(std::string_view line, std::size_t width, std::optional<std::size_t> later = {});

/// `text` with every line that is wider than table_width broken: it continues below its last column, which begins after
/// two spaces or more, or two columns further in than it begins where that leaves less than a third of the width.
std::string within_table_width(std::string_view text);

/// A number in a format of fmt; "–" for NaN, "overflow" for infinity.
std::string number(double value, const char* format = "{:.4g}");

/// A value as number() shows it, with its standard error if both are finite: "8.747 ± 0.1".
std::string with_error(double value, double error, const char* format = "{:.4g}", const char* error_format = "{:.1g}");

/// `text` without the terminal's escape sequences for colours: ESC [ digits and semicolons m.
std::string without_colours(std::string_view text);

}  // namespace periscope::dataset
