#include "experiments/app/command.h"

#include <memory>

#include "experiments/app/stop_signals.h"
#include "experiments/engine/run/progress.h"

namespace periscope::app {

int exit_code_of(const std::function<ExitCode()>& body) {
  if (stop_signalled()) return static_cast<int>(stopped());  // before anything has begun
  try {
    return static_cast<int>(body());
  } catch (const stacks::Stopped&) {
    return static_cast<int>(stopped());
  }
}

CLI::App* add_command(CLI::App& app, int& code, const std::string& name, const std::string& about,
                      const study::FlagNames& without, std::function<ExitCode(const CommonOptions&)> body,
                      const std::vector<study::FlagText>& flags) {
  CLI::App* command = app.add_subcommand(name, about);
  const auto options = std::make_shared<CommonOptions>();
  options->add_to(*command, without, flags);
  command->callback([options, body = std::move(body), &code] { code = exit_code_of([&] { return body(*options); }); });
  return command;
}

}  // namespace periscope::app
