#include <memory>
#include <string>
#include <vector>

#include "experiments/app/tools/tools.h"

namespace periscope::app {

void add_help(CLI::App& app) {
  const auto words = std::make_shared<std::vector<std::string>>();
  app.add_subcommand("help", "The flags of a command, as its --help")
      ->add_option("command", *words, "The command, as in `periscope help propagate`; none: all of them");
}

}  // namespace periscope::app
