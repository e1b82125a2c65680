#include "experiments/engine/result/text_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/algorithm/string/replace.hpp>
#include <cmath>
#include <numeric>
#include <utility>

#include "experiments/engine/result/dataset.h"

namespace periscope::dataset {
namespace {

constexpr std::size_t longest_word = 32;  ///< longer words may be broken anywhere

/// Returns true if a byte starts a UTF-8 character.
bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

/// Returns the number of terminal columns of UTF-8 text, without colour escape sequences.
std::size_t printed_width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(without_colours(text), begins_character));
}

/// Splits a line into pieces that may not be broken, such as "1 ± 2".
std::vector<std::string> pieces_of(std::string_view line) {
  const auto binds = [](std::string_view word) {
    return word == "±" || word == "/" || word == "=" || word == "≤" || word == "%";
  };
  std::vector<std::string> pieces;
  bool bound = false;
  for (const std::string& word : split(line)) {
    if (!pieces.empty() && (bound || binds(word))) {
      pieces.back() += " " + word;
    } else {
      pieces.push_back(word);
    }
    bound = binds(word) && word != "%";
  }
  return pieces;
}

/// Returns the length in bytes of the longest prefix that takes at most `width` columns.
std::size_t bytes_within(std::string_view text, std::size_t width) {
  std::size_t end = 0;
  for (std::size_t next = 1; next <= text.size(); ++next) {
    if (next < text.size() && !begins_character(text[next])) continue;
    if (printed_width(text.substr(0, next)) > width) break;
    end = next;
  }
  return end;
}

/// Returns the smallest column width that breaks no word of the cell. Cells that begin with a space are not broken.
std::size_t min_column_width(std::string_view cell) {
  if (cell.starts_with(' ')) return printed_width(cell);
  std::size_t width = 0;
  for (const std::string& piece : pieces_of(cell)) width = std::max(width, printed_width(piece));
  return std::min(width, longest_word);
}

}  // namespace

TextTable::TextTable(const std::vector<std::string>& titles) {
  Row header{{}, false};
  for (const std::string& title : titles) {
    right_.push_back(title.starts_with('>'));
    header.cells.push_back(right_.back() ? title.substr(1) : title);
  }
  rows_.push_back(std::move(header));
}

void TextTable::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) boost::algorithm::replace_all(cell, "-nan", "nan");
  rows_.push_back({std::move(cells), false});
}

void TextTable::add_note(std::string first, std::string words) {
  rows_.push_back({{std::move(first), std::move(words)}, true});
}

std::vector<std::string> wrap_line(std::string_view line, std::size_t width, std::optional<std::size_t> later) {
  if (printed_width(line) <= width) return {std::string(line)};
  std::vector<std::string> lines;
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  std::string current(line.substr(0, begin));
  bool is_empty = true;
  const auto end_line = [&] {
    lines.push_back(std::exchange(current, {}));
    width = later.value_or(width);
  };
  for (std::string piece : pieces_of(line.substr(begin))) {
    if (!is_empty && printed_width(current) + 1 + printed_width(piece) > width) {
      current.erase(current.find_last_not_of(' ') + 1);
      end_line();
      is_empty = true;
    }
    if (!is_empty) current += ' ';
    while (is_empty && printed_width(piece) + printed_width(current) > width) {
      const std::size_t end = std::max<std::size_t>(bytes_within(piece, width - printed_width(current)), 1);
      current += piece.substr(0, end);
      piece.erase(0, end);
      end_line();
    }
    current += piece;
    is_empty = false;
  }
  if (!current.empty()) lines.push_back(std::move(current));
  return lines;
}

std::string wrap_to_table_width(std::string_view text) {
  std::string all;
  for (const std::string& whole : split(text, '\n')) {
    const std::string_view line = whole;
    const std::size_t gap = line.rfind("  ");
    const std::size_t begin = std::min(line.find_first_not_of(' '), table_width / 2);
    std::string_view head = line.substr(0, gap == std::string_view::npos ? 0 : gap + 2);
    std::size_t indent = printed_width(head);
    constexpr std::size_t far = 8;  // a line indented this far has empty first cells
    if (3 * indent > 2 * table_width || (begin >= head.size() && begin < far)) {
      indent = begin + 2;
      head = {};
    }
    const std::string_view rest = line.substr(head.size());
    all.append(head);
    all += fmt::format("{}", fmt::join(wrap_line(rest, table_width - printed_width(head), table_width - indent),
                                       "\n" + std::string(indent, ' ')));
    all += '\n';
  }
  if (!text.empty() && !text.ends_with('\n')) all.pop_back();
  return all;
}

std::string number(double value, const char* format) {
  if (std::isinf(value)) return value > 0.0 ? "overflow" : "-overflow";
  return std::isnan(value) ? "–" : fmt::format(fmt::runtime(format), value);
}

std::string with_error(double value, double error, const char* format, const char* error_format) {
  const std::string words = number(value, format);
  return std::isfinite(error) && std::isfinite(value) ? words + " ± " + fmt::format(fmt::runtime(error_format), error)
                                                      : words;
}

std::string TextTable::text(std::size_t indent, std::size_t width) const {
  const std::size_t room = width - std::min(indent, width);
  std::string text;
  std::size_t begin = 1;
  do {
    Part part{.columns = std::vector<std::size_t>(right_.size() - begin + 1, 0), .notes = begin == 1};
    std::iota(part.columns.begin() + 1, part.columns.end(), begin);
    measure(part);
    const auto total = [](const std::vector<std::size_t>& widths) {
      return std::accumulate(widths.begin(), widths.end(), 2 * (widths.size() - 1));
    };
    if (total(part.narrow) > room) {
      while (part.columns.size() > 2 && total(part.wide) > room) {
        part.columns.pop_back();
        part.wide.pop_back();
      }
      measure(part);
    }
    while (total(part.wide) > room) {
      std::size_t* widest = nullptr;
      for (std::size_t k = 0; k < part.wide.size(); ++k) {
        std::size_t& wide = part.wide[k];
        if (wide > part.narrow[k] && (widest == nullptr || wide > *widest)) widest = &wide;
      }
      if (widest == nullptr) break;
      --*widest;
    }
    text += (begin > 1 ? "\n" : "") + lines(part, indent, room);
    begin += part.columns.size() - 1;
  } while (begin < right_.size());
  return text;
}

void TextTable::measure(Part& part) const {
  part.wide = part.narrow = std::vector<std::size_t>(part.columns.size(), 0);
  for (const Row& row : rows_) {
    if (row.note && !part.notes) continue;
    for (std::size_t k = 0; k < (row.note ? 1 : part.columns.size()); ++k) {
      if (part.columns[k] >= row.cells.size()) continue;
      const std::string& cell = row.cells[part.columns[k]];
      part.wide[k] = std::max(part.wide[k], printed_width(cell));
      part.narrow[k] = std::max(part.narrow[k], min_column_width(cell));
    }
  }
}

std::string TextTable::lines(const Part& part, std::size_t indent, std::size_t room) const {
  std::string text;
  for (const Row& row : rows_) {
    if (row.note && !part.notes) continue;
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 1;
    for (std::size_t k = 0; k < (row.note ? 2 : part.columns.size()); ++k) {
      const std::size_t column = row.note ? k : part.columns[k];
      const std::size_t left = std::max(room - std::min(room, part.wide[0] + 2), longest_word);
      cells.push_back(
          wrap_line(column < row.cells.size() ? row.cells[column] : "", row.note && k > 0 ? left : part.wide[k]));
      height = std::max(height, cells.back().size());
    }
    for (std::size_t l = 0; l < height; ++l) {
      std::string line(indent, ' ');
      for (std::size_t k = 0; k < cells.size(); ++k) {
        const std::string cell = l < cells[k].size() ? cells[k][l] : "";
        const std::size_t printed = printed_width(cell);
        const std::string space(part.wide[k] > printed ? part.wide[k] - printed : 0, ' ');
        line += (k > 0 ? "  " : "") + (right_[part.columns[k]] && !row.note ? space + cell : cell + space);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + '\n';
    }
  }
  return text;
}

std::string without_colours(std::string_view text) {
  std::string plain(text);
  for (std::size_t at = 0; (at = plain.find('\x1b', at)) != std::string::npos;) {
    plain.erase(at, std::min(plain.find('m', at), plain.size() - 1) + 1 - at);
  }
  return plain;
}

}  // namespace periscope::dataset
