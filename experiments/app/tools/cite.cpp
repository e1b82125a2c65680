#include <fmt/format.h>
#include <netcdf.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "experiments/app/command.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/tools/tools.h"
#include "experiments/core/config/build_info.h"
#include "sim/base/printable.h"

namespace periscope::app {
namespace {

/// What is cited: this program, or the one that made a result and what the result says of itself.
struct Cited {
  std::string version = build_info::version;
  std::string commit = build_info::commit;
  std::string result = {};
};

/// A result file that is read for its attributes alone.
class ResultAttributes {
 public:
  explicit ResultAttributes(std::string path) : path_(std::move(path)) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path_, error)) refuse("is no file");
    if (nc_open(path_.c_str(), NC_NOWRITE, &id_) != NC_NOERR) refuse("is no NetCDF file");
  }
  ResultAttributes(const ResultAttributes&) = delete;
  ResultAttributes& operator=(const ResultAttributes&) = delete;
  ~ResultAttributes() {
    if (id_ >= 0) nc_close(id_);
  }

  /// The text of a global attribute, fit to be shown.
  [[nodiscard]] std::string text(const char* name) const {
    nc_type type = NC_NAT;
    std::size_t length = 0;
    constexpr std::size_t longest = 1000;
    if (nc_inq_att(id_, NC_GLOBAL, name, &type, &length) != NC_NOERR || type != NC_CHAR || length > longest) {
      refuse(fmt::format("has no text attribute {}", name));
    }
    std::string value(length, ' ');
    if (nc_get_att_text(id_, NC_GLOBAL, name, value.data()) != NC_NOERR) refuse(fmt::format("{} cannot be read", name));
    return printable(value);
  }

 private:
  [[noreturn]] void refuse(const std::string& found) const {
    throw InputError(fmt::format("{} {}: expected a result of periscope in NetCDF", printable(path_), found));
  }

  std::string path_;
  int id_ = -1;
};

/// Text inside braces of BibTeX.
std::string bibtex(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("\\{}~^").find(c) != std::string_view::npos) continue;
    if (std::string_view("%&#_$").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

Cited cited_by(const std::string& path) {
  const ResultAttributes file(path);
  return {.version = file.text("version"),
          .commit = file.text("commit"),
          .result = fmt::format("; a result of its study {} on {}, {}, with the configuration of SHA-256 {}",
                                file.text("study"), file.text("device"), file.text("instructions"),
                                file.text("config_sha256"))};
}

std::string citation(const Cited& cited) {
  return fmt::format(
      R"(@software{{periscope,
  title = {{Periscope: a laboratory for normalization placement in deep residual stacks}},
  author = {{{{The Periscope authors}}}},
  version = {{{}}},
  note = {{Commit {}{}}}
}}

@inproceedings{{kim2025periln,
  title = {{{{Peri-LN}}: Revisiting Normalization Layer in the Transformer Architecture}},
  author = {{Kim, Jeonghoon and Lee, Byeongchan and Park, Cheonbok and Oh, Yeontaek and Kim, Beomjun and Yoo, Taehwan and
            Shin, Seongjin and Han, Dongyoon and Shin, Jinwoo and Yoo, Kang Min}},
  booktitle = {{Proceedings of the 42nd International Conference on Machine Learning}},
  series = {{Proceedings of Machine Learning Research}},
  volume = {{267}},
  year = {{2025}},
  note = {{arXiv:2502.02732}}
}}
)",
      bibtex(cited.version), bibtex(cited.commit), bibtex(cited.result));
}

}  // namespace

void add_cite(CLI::App& app, int& code) {
  const auto file = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("cite", "BibTeX of the program and of the paper that it examines");
  command->add_option("file", *file, "A result in NetCDF: the program that made it, its study and configuration");
  command->callback([file, &code] {
    code = exit_code_of([&] {
      print_result(citation(file->empty() ? Cited{} : cited_by(*file)));
      return ExitCode::ok;
    });
  });
}

}  // namespace periscope::app
