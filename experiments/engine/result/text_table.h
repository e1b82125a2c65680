#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace periscope::dataset {

/// Maximum width of a text table, in terminal columns.
inline constexpr std::size_t table_width = 100;

/// A plain-text table. Columns are as wide as their widest cell. If the table is too wide, cells and titles are
/// wrapped, the widest column first. Columns that still do not fit go into a second table below, which repeats the
/// first column. A title that begins with ">" makes the column right-aligned.
class TextTable {
 public:
  explicit TextTable(const std::vector<std::string>& titles);
  /// Adds a row; missing cells at its end are empty. Cells may contain UTF-8 and fmt's colours. "-nan" becomes "nan".
  void add(std::vector<std::string> cells);
  /// Adds a row whose `words` start in the second column and do not affect column widths.
  void add_note(std::string first, std::string words);
  /// Returns lines of at most `width` columns, each indented by `indent` spaces, without trailing spaces.
  [[nodiscard]] std::string text(std::size_t indent = 0, std::size_t width = table_width) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool note;
  };
  /// Columns printed side by side, including the first one. `wide`: column widths if no cell is wrapped; `narrow`: if
  /// every cell is wrapped wherever possible.
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

/// Wraps a line to at most `width` columns, or `later` columns for all lines except the first. Breaks at spaces, but
/// not next to "±", "/", "=" or "≤"; breaks words only if they are longer than a line.
std::vector<std::string> wrap_line(std::string_view line, std::size_t width, std::optional<std::size_t> later = {});

/// Wraps lines of `text` that are wider than table_width. Continuation lines are aligned with the last column, which
/// begins after at least two spaces. If that leaves less than a third of the width, they are indented by two spaces.
std::string wrap_to_table_width(std::string_view text);

/// Returns a count with its noun: "1 token", "12 tokens", "8 to 32 tokens".
inline std::string counted(const std::string& count, const std::string& noun) {
  return count + " " + noun + (count == "1" ? "" : "s");
}

/// Formats a number; "–" for NaN, "overflow" for infinity.
std::string number(double value, const char* format = "{:.4g}");

/// Formats a value as number() does, with its standard error if both are finite: "8.747 ± 0.1".
std::string with_error(double value, double error, const char* format = "{:.4g}", const char* error_format = "{:.1g}");

/// Removes colour escape sequences (ESC [ digits and semicolons m).
std::string without_colours(std::string_view text);

}  // namespace periscope::dataset
