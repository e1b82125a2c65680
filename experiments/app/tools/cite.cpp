#include <fmt/format.h>
#include <netcdf.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "experiments/app/command.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/tools/tools.h"
#include "experiments/engine/study/study.h"
#include "sim/base/printable.h"

namespace periscope::app {
namespace {

/// Returns the citation of a result, from the attributes of its file.
std::string citation_of(const std::string& path) {
  const auto reject = [&](const std::string& found) {
    throw InputError(fmt::format("{}: expected a NetCDF result of periscope, found {}", printable(path), found));
  };
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) reject("no file");
  int id = -1;
  if (nc_open(path.c_str(), NC_NOWRITE, &id) != NC_NOERR) reject("another format");
  const std::shared_ptr<void> closer(nullptr, [id](void*) { nc_close(id); });
  return study::citation([&](const char* name) {
    nc_type type = NC_NAT;
    std::size_t length = 0;
    constexpr std::size_t longest = 1000;
    if (nc_inq_att(id, NC_GLOBAL, name, &type, &length) != NC_NOERR || type != NC_CHAR || length > longest) {
      reject(fmt::format("no text attribute {}", name));
    }
    std::string value(length, ' ');
    if (nc_get_att_text(id, NC_GLOBAL, name, value.data()) != NC_NOERR)
      reject(fmt::format("an unreadable attribute {}", name));
    return printable(value);
  });
}

}  // namespace

void add_cite(CLI::App& app, int& code) {
  const auto file = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("cite", "Print BibTeX entries of this program and of the Peri-LN paper");
  command->add_option("file", *file, "NetCDF result; cites the program that wrote it, with study and configuration");
  command->callback([file, &code] {
    code = exit_code_of([&] {
      print_result(file->empty() ? study::citation() : citation_of(*file));
      return ExitCode::ok;
    });
  });
}

}  // namespace periscope::app
