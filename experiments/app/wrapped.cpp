#include "experiments/app/wrapped.h"

#include <algorithm>
#include <utility>

#include "experiments/engine/result/text_table.h"

namespace periscope::app {
namespace {

/// Returns the position, in bytes, at which the last column of a line begins.
std::size_t last_column(std::string_view line) {
  const std::size_t gap = line.rfind("  ");
  return gap == std::string_view::npos ? 0 : gap + 2;
}

void append_wrapped(std::string& text, std::string_view line, std::size_t width) {
  std::size_t indent = dataset::printed_width(line.substr(0, last_column(line)));
  if (3 * indent > 2 * width) indent = std::min(line.find_first_not_of(' '), line.size()) + 2;
  std::size_t used = 0;
  bool has_word = false;
  while (!line.empty()) {
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    const std::size_t end = std::min(line.find(' ', begin), line.size());
    const std::size_t wide = dataset::printed_width(line.substr(0, end));
    if (has_word && used + wide > width) {
      text += '\n' + std::string(indent, ' ');
      text += line.substr(begin, end - begin);
      used = indent + dataset::printed_width(line.substr(begin, end - begin));
    } else {
      text += line.substr(0, end);
      used += wide;
    }
    has_word = has_word || end > begin;
    line.remove_prefix(end);
  }
}

}  // namespace

std::string wrapped(std::string_view lines, std::size_t width) {
  std::string text;
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    append_wrapped(text, lines.substr(0, end), width);
    if (end == std::string_view::npos) break;
    text += '\n';
    lines.remove_prefix(end + 1);
  }
  return text;
}

std::string WrappedHelp::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  return wrapped(CLI::Formatter::make_help(app, std::move(name), mode));
}

}  // namespace periscope::app
