#include <memory>
#include <string>

#include "experiments/app/tools/export_csv.h"
#include "experiments/app/tools/tools.h"

namespace periscope::app {

void add_export(CLI::App& app, int& code) {
  CLI::App* command = app.add_subcommand("export", "Write a result file's variables as text");
  const auto file = std::make_shared<std::string>();
  const auto csv = std::make_shared<std::string>();
  command->add_option("file", *file, "A NetCDF result file")->required();
  command->add_option("--csv", *csv, "CSV file to write, - for stdout")->required();
  const auto force = std::make_shared<bool>(false);
  command->add_flag("--force", *force, "Overwrite a file that is no CSV");
  command->callback([=, &code] { code = static_cast<int>(export_csv(*file, *csv, *force)); });
}

}  // namespace periscope::app
