#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <string_view>

namespace periscope::app {

/// The columns that help and lists take at most.
inline constexpr std::size_t text_width = 100;

/// Lines for people, none wider than `width`: what is longer goes on below its last column, which begins behind two
/// spaces or more, or below the line's beginning where that column leaves less than a third of the width. Words longer
/// than a line stay whole.
std::string wrapped(std::string_view lines, std::size_t width = text_width);

/// Help as CLI11 writes it, wrapped.
class WrappedHelp final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

}  // namespace periscope::app
