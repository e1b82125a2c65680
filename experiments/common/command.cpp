#include "experiments/common/command.h"

#include <fmt/format.h>

#include <memory>

#include "experiments/common/json_text.h"

namespace periscope {

namespace {

CLI::App* add(CLI::App& app, int& code, const std::string& name, const std::string& about,
              std::function<ExitCode(const CommonOptions&)> body, bool compares) {
  CLI::App* command = app.add_subcommand(name, about);
  const auto options = std::make_shared<CommonOptions>();
  options->add_to(*command);
  if (compares) options->add_theory_set_to(*command);
  command->callback([options, body = std::move(body), &code] { code = exit_code_of([&] { return body(*options); }); });
  return command;
}

}  // namespace

int exit_code_of(const std::function<ExitCode()>& body) {
  ExitCode code = ExitCode::ok;
  return static_cast<int>(until_stopped([&] { code = body(); }) ? stopped() : code);
}

CLI::App* add_command(CLI::App& app, int& code, const std::string& name, const std::string& about,
                      std::function<ExitCode(const CommonOptions&)> body) {
  return add(app, code, name, about, std::move(body), false);
}

CLI::App* add_comparing_command(CLI::App& app, int& code, const std::string& name, const std::string& about,
                                std::function<ExitCode(const CommonOptions&)> body) {
  return add(app, code, name, about, std::move(body), true);
}

void print_json(const nlohmann::ordered_json& json) { fmt::print("{}\n", json_text(json)); }

}  // namespace periscope
