#include "experiments/core/dataset/text_table.h"

#include <algorithm>

namespace periscope::dataset {

std::size_t printed_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = std::min(text.find('m', i), text.size());
    } else if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) {
      ++width;  // not a continuation byte of UTF-8
    }
  }
  return width;
}

TextTable::TextTable(const std::vector<std::string>& titles) {
  Row header{{}, false};
  for (const std::string& title : titles) {
    right_.push_back(title.starts_with('>'));
    header.cells.push_back(right_.back() ? title.substr(1) : title);
  }
  rows_.push_back(std::move(header));
}

void TextTable::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) {
    for (std::size_t at = cell.find("-nan"); at != std::string::npos; at = cell.find("-nan", at)) cell.erase(at, 1);
  }
  rows_.push_back({std::move(cells), false});
}

void TextTable::add_note(std::string first, std::string words) {
  rows_.push_back({{std::move(first), std::move(words)}, true});
}

std::string TextTable::text(std::size_t indent) const {
  std::vector<std::size_t> widths(right_.size(), 0);
  for (const Row& row : rows_) {
    for (std::size_t k = 0; k < (row.note ? 1 : row.cells.size()); ++k) {
      widths.at(k) = std::max(widths.at(k), printed_width(row.cells[k]));
    }
  }
  std::string text;
  for (const Row& row : rows_) {
    std::string line(indent, ' ');
    for (std::size_t k = 0; k < row.cells.size(); ++k) {
      const std::size_t width = printed_width(row.cells[k]);
      const std::string space(widths[k] > width ? widths[k] - width : 0, ' ');
      line += (k > 0 ? "  " : "") + (right_[k] ? space + row.cells[k] : row.cells[k] + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string without_colours(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "\033[") == 0) {
      i = std::min(text.find('m', i), text.size());
    } else {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace periscope::dataset
