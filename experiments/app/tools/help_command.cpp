#include <memory>
#include <string>
#include <vector>

#include "experiments/app/command_line_faults.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/tools/tools.h"
#include "sim/base/error.h"

namespace periscope::app {

void add_help(CLI::App& app, int& code) {
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app.add_subcommand("help", "The flags of a command, as its --help");
  command->add_option("command", *words, "The command, as in `periscope help propagate`; none: all of them");
  command->callback([words, &app, &code] {
    if (const std::string unknown = unknown_word(app, *words); !unknown.empty()) {
      print_message(unknown + "\n");
      code = static_cast<int>(ExitCode::configuration);
      return;
    }
    print_result(named_command(app, *words)->help());
  });
}

}  // namespace periscope::app
