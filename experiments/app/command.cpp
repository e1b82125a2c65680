#include "experiments/app/command.h"

#include <fmt/format.h>

#include <memory>

#include "experiments/app/netcdf_file.h"
#include "experiments/app/standard_streams.h"
#include "experiments/core/config/json_text.h"
#include "sim/files/output_file.h"
#include "sim/spec/printable.h"

namespace periscope {

namespace {

CLI::App* add(CLI::App& app, int& code, const std::string& name, const std::string& about,
              std::function<ExitCode(const CommonOptions&)> body, bool skips, bool compares) {
  CLI::App* command = app.add_subcommand(name, about);
  const auto options = std::make_shared<CommonOptions>();
  options->add_to(*command);
  if (skips) options->add_skip_finished_to(*command);
  if (compares) options->add_theory_set_to(*command);
  command->callback([options, body = std::move(body), &code] { code = exit_code_of([&] { return body(*options); }); });
  return command;
}

std::string result_file(const std::string& out, const std::string& name, const std::string& extension) {
  return fmt::format("{}/{}.{}", out, name, extension);
}

}  // namespace

int exit_code_of(const std::function<ExitCode()>& body) {
  ExitCode code = ExitCode::ok;
  return static_cast<int>(until_stopped([&] { code = body(); }) ? stopped() : code);
}

CLI::App* add_command(CLI::App& app, int& code, const std::string& name, const std::string& about,
                      std::function<ExitCode(const CommonOptions&)> body) {
  return add(app, code, name, about, std::move(body), false, false);
}

CLI::App* add_skipping_command(CLI::App& app, int& code, const std::string& name, const std::string& about,
                               std::function<ExitCode(const CommonOptions&)> body) {
  return add(app, code, name, about, std::move(body), true, false);
}

CLI::App* add_comparing_command(CLI::App& app, int& code, const std::string& name, const std::string& about,
                                std::function<ExitCode(const CommonOptions&)> body) {
  return add(app, code, name, about, std::move(body), true, true);
}

void require_place_for_results(const std::string& name, const std::string& out) {
  if (out.empty()) return;
  for (const char* extension : {"nc", "json"}) const OutputFile trial(result_file(out, name, extension));
}

ExitCode telling_of(const std::optional<CellJournal>& journal, const std::function<ExitCode()>& run) {
  try {
    return run();
  } catch (const Stopped&) {
    return stopped();  // while the journal is there to say so
  } catch (...) {
    if (journal && journal->has_kept()) {
      print_message(fmt::format("{} keeps what is finished; the same command goes on from there\n", journal->path()));
    }
    throw;
  }
}

void print_json(const nlohmann::ordered_json& json) { print_result(json_text(json) + "\n"); }

ExitCode publish(const std::string& name, const CommonOptions& options, const std::string& out, const Columns& result,
                 const std::string& table, ExitCode code, bool json_file, const std::function<void()>& write_more) {
  nlohmann::ordered_json json;
  if (options.json || json_file) json = result.json();
  // A result with --theory-set says so at the top level too, not only in its provenance.
  if (json.contains("provenance") && json["provenance"].contains("theory_told")) {
    json["theory_told"] = json["provenance"]["theory_told"];
  }
  const auto wrote = [&](const std::string& path) {
    if (!options.quiet) print_message(fmt::format("wrote {}\n", printable(path)));
  };
  if (!out.empty()) {
    dataset::Dataset file = result.dataset();
    add_outcome(file, code, table);
    write_netcdf(result_file(out, name, "nc"), file);
    wrote(result_file(out, name, "nc"));
    if (json_file) {
      write_file(result_file(out, name, "json"), json_text(json, 1) + "\n");
      wrote(result_file(out, name, "json"));
    }
  }
  if (write_more) write_more();
  if (!options.quiet) print_message(table);
  if (options.json) print_json(json);
  return code;
}

}  // namespace periscope
