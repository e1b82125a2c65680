#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "experiments/app/command.h"
#include "experiments/app/run_study.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/stop_signals.h"
#include "experiments/app/terminal_progress.h"
#include "experiments/app/tools/tools.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/ledger/ledger.h"
#include "sim/base/printable.h"
#include "sim/files/output_file.h"

namespace periscope::app {
namespace {

using ledger::Claims;
using ledger::Entry;

struct LedgerFlags {
  std::string claims, stored, shard = "1/1";
  bool quick = false, retry = false;
  std::vector<std::string> ids;
};

const study::Flag<LedgerFlags> claims_flag{"claims", &LedgerFlags::claims,
                                           "TOML file of claims and runs; default: experiments/configs/claims.toml"};
const study::Flag<LedgerFlags> ids_flag{"claim", &LedgerFlags::ids,
                                        "Run and show only these claims, such as --claim F3"};
const study::Flag<LedgerFlags> quick_flag{"quick", &LedgerFlags::quick, "Smaller stacks and fewer seeds"};
const study::Flag<LedgerFlags> stored_flag{"stored", &LedgerFlags::stored,
                                           "Results of an earlier ledger.json, used for cells missing from the folder"};
const std::vector<study::Flag<LedgerFlags>> list_flags{claims_flag, ids_flag};
const std::vector<study::Flag<LedgerFlags>> report_flags{claims_flag, ids_flag, quick_flag, stored_flag};
const std::vector<study::Flag<LedgerFlags>> ledger_run_flags{
    claims_flag,
    ids_flag,
    quick_flag,
    stored_flag,
    {"shard", &LedgerFlags::shard, "Run part K of N of the cells of all runs, as in --shard 3/16"},
    {"retry", &LedgerFlags::retry, "Compute failed cells again"}};

Claims read(const LedgerFlags& flags) {
  if (std::error_code unknown; !flags.claims.empty() && !std::filesystem::exists(flags.claims, unknown)) {
    throw ConfigError(fmt::format("--claims {}: no such file", shortened(flags.claims)));
  }
  Claims claims = ledger::read_claims(
      flags.claims.empty() ? find_shipped_configuration("experiments/configs/claims.toml", "--claims") : flags.claims);
  ledger::require_known(claims, flags.ids);
  return claims;
}

/// Returns the folder of --out. Throws ConfigError without it.
std::string folder_of(const CommonOptions& options) {
  const std::string out = study::read_flags(study::run_flags(), options.from_flags.run).out;
  if (out.empty()) throw ConfigError("--out: expected the folder of the ledger");
  return out;
}

/// Returns the results of --stored. Throws ConfigError if it is the file to be written.
ledger::StoredResults stored_results(const LedgerFlags& flags, const std::string& folder) {
  if (flags.stored.empty()) return {};
  if (std::error_code absent; std::filesystem::equivalent(flags.stored, folder + "/ledger.json", absent)) {
    throw ConfigError(
        fmt::format("--stored {}: expected a file other than the ledger.json to be written", shortened(flags.stored)));
  }
  return ledger::StoredResults(flags.stored);
}

ExitCode list_claims(const CommonOptions& options) {
  const auto flags = study::read_flags(list_flags, options.from_flags.flags);
  const Claims claims = read(flags);
  dataset::TextTable table({"claim", "source", "statement", "kind", "run"});
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ledger::ClaimRow& claim : claims.claims) {
    if (!is_selected({.folder = {}, .ids = flags.ids}, claim)) continue;
    table.add({claim.id, claim.source, claim.statement, std::string(name_of(claim.kind)), claim.run});
    json.push_back({{"id", claim.id}, {"source", claim.source}, {"statement", claim.statement}});
  }
  if (options.json) {
    print_json(json);
  } else {
    print_result(table.text());
  }
  return ExitCode::ok;
}

std::string table_of(const std::vector<Entry>& entries) {
  dataset::TextTable table({"claim", ">σ√D", "verdict", ">value", ">p", ">Holm", "statement"});
  for (const Entry& entry : entries) {
    const judge::SignClaim& judged = entry.judged;
    table.add({entry.claim->id, dataset::number(entry.regime, "{:.2f}"), std::string(judge::name_of(judged.verdict)),
               dataset::with_error(judged.mean.value, judged.mean.error), dataset::number(judged.p, "{:.2g}"),
               dataset::number(judged.holm, "{:.2g}"), entry.claim->statement});
  }
  return table.text();
}

/// Judges the cells of the ledger, writes FOLDER/ledger.json and prints the verdicts.
ExitCode publish(const CommonOptions& options, const Claims& claims, const ledger::Selection& selection,
                 stacks::Progress& progress) {
  std::vector<Entry> entries = ledger::judge(claims, selection, progress);
  const nlohmann::ordered_json json = ledger::json_of(claims, selection, entries);
  const std::string path = selection.folder + "/ledger.json";
  write_file(path, config::json_text(json, 1) + "\n");
  std::erase_if(entries, [&](const Entry& entry) { return !is_selected(selection, *entry.claim); });
  if (!options.quiet) {
    print_message(table_of(entries) +
                  "value: of the expression that decides the claim (periscope ledger report --json), ± its standard "
                  "error over seeds; p: one-sided; Holm: two-sided, corrected for all tested claims.\n" +
                  fmt::format("wrote {}\n", printable(path)));
  }
  if (options.json) print_json(json);
  for (const Entry& entry : entries) {
    if (entry.failed) print_message(fmt::format("periscope: claim {}: {}\n", entry.claim->id, entry.judged.reason));
  }
  if (std::ranges::any_of(entries, &Entry::failed)) return ExitCode::runtime_failure;
  return std::ranges::any_of(entries, &Entry::missing) ? ExitCode::stopped_early : ExitCode::ok;
}

ExitCode report_ledger(const CommonOptions& options) {
  const auto flags = study::read_flags(report_flags, options.from_flags.flags);
  TerminalProgress progress(options.quiet);
  return publish(options, read(flags),
                 {.folder = folder_of(options),
                  .quick = flags.quick,
                  .ids = flags.ids,
                  .stored = stored_results(flags, folder_of(options)),
                  .settings = {}},
                 progress);
}

ExitCode run_ledger(const CommonOptions& options) {
  const auto flags = study::read_flags(ledger_run_flags, options.from_flags.flags);
  const auto run = study::read_flags(study::run_flags(), options.from_flags.run);
  require_ranges(config::run_section, run);
  if (run.threads > 0) omp_set_num_threads(run.threads);
  const Claims claims = read(flags);
  TerminalProgress progress(options.quiet);
  const ledger::Selection selection{.folder = folder_of(options),
                                    .quick = flags.quick,
                                    .ids = flags.ids,
                                    .stored = stored_results(flags, folder_of(options)),
                                    .settings = {.shard = stacks::parse_shard(flags.shard),
                                                 .threads = run.threads,
                                                 .retry = flags.retry,
                                                 .force = options.from_flags.force,
                                                 .argv = command_line}};
  const sweeps::CellCounts counts = ledger::run(claims, selection, progress);
  clear_stop_signal();
  if (selection.settings.shard.count > 1) return counts.failed > 0 ? ExitCode::runtime_failure : ExitCode::ok;
  return publish(options, claims, selection, progress);
}

}  // namespace

void add_ledger(CLI::App& app, int& code) {
  CLI::App* group = app.add_subcommand("ledger", "Decide claims of the literature by results of studies");
  group->require_subcommand(1);
  group->footer(app.get_footer());
  add_command(*group, code, "list", "List the claims", no_run, list_claims, flag_texts(list_flags));
  add_command(*group, code, "run", "Run the studies that the claims need, and judge the claims",
              no_run_except({"out", "threads", "force"}), run_ledger, flag_texts(ledger_run_flags));
  add_command(*group, code, "report",
              "Judge the claims from finished runs; exit code 75 if some are missing, 1 if one failed",
              no_run_except({"out"}), report_ledger, flag_texts(report_flags));
}

}  // namespace periscope::app
