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
#include "experiments/engine/study/study.h"
#include "sim/base/printable.h"

namespace periscope::app {
namespace {

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

std::string citation_of(const std::string& path) {
  const ResultAttributes file(path);
  return study::citation([&](const char* name) { return file.text(name); });
}

}  // namespace

void add_cite(CLI::App& app, int& code) {
  const auto file = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("cite", "BibTeX of the program and of the paper that it examines");
  command->add_option("file", *file, "A result in NetCDF: the program that made it, its study and configuration");
  command->callback([file, &code] {
    code = exit_code_of([&] {
      print_result(file->empty() ? study::citation() : citation_of(*file));
      return ExitCode::ok;
    });
  });
}

}  // namespace periscope::app
