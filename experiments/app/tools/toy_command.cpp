#include "experiments/app/command.h"
#include "experiments/app/publish.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/tools/tools.h"
#include "experiments/app/tools/toy_vector.h"

namespace periscope::app {

void add_toy(CLI::App& app, int& code) {
  add_command(app, code, "toy", "The toy vector [2, 0, -2] through Peri-LN and through the reviews' version of it",
              no_run, [](const CommonOptions& options) {
                const ToyVector vector = toy_vector();
                if (!options.quiet) print_message(toy_table(vector));
                if (options.json) print_json(toy_json(vector));
                return ExitCode::ok;
              });
}

}  // namespace periscope::app
