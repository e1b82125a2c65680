#include "experiments/ledger/claims.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <initializer_list>

#include "experiments/engine/settings/config.h"
#include "experiments/engine/settings/toml_reader.h"
#include "experiments/studies/reproduce/reproduce.h"
#include "sim/base/error.h"
#include "sim/base/mapped.h"
#include "sim/base/printable.h"

namespace periscope::ledger {
namespace {

using config::TomlReader;

/// Throws ConfigError if the settings do not determine σ from σ√D, or if the run's name is no valid folder name.
void require_run(const TomlReader& reader, const RunRow& run) {
  const auto sets = [](const std::vector<std::string>& settings, std::string_view key) {
    return std::ranges::any_of(settings, [&](const std::string& setting) { return setting.starts_with(key); });
  };
  if (run.regimes && !sets(run.settings, "model.width=")) {
    reader.fail("settings", "model.width, from which init.std follows, or regimes = false");
  }
  for (const auto* settings : {&run.settings, &run.quick}) {
    if (!run.regimes || !(sets(*settings, "init.std=") || sets(*settings, "init.scheme="))) continue;
    reader.fail("settings", "no init.std and init.scheme, which the regimes set, or regimes = false");
  }
  const auto is_allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.';
  };
  if (!std::ranges::all_of(run.name, is_allowed) || run.name.starts_with('.')) {
    reader.fail("name", "letters, digits, - and .");
  }
}

RunRow read_run(TomlReader& reader) {
  RunRow run;
  reader.require_text("name", run.name);
  reader.require_text("study", run.study);
  reader.read("flags", run.flags);
  reader.read("settings", run.settings);
  reader.read("quick", run.quick);
  reader.read("regimes", run.regimes);
  reader.read("full_only", run.full_only);
  require_run(reader, run);
  reader.finish();
  return run;
}

/// Fills the fields of a claim that the study `reproduce` states and tests itself.
void read_training_claim(TomlReader& reader, ClaimRow& claim) {
  claim.statement = reproduce::statement_of(claim.id);
  if (claim.statement.empty()) reader.fail("id", "a claim of the study reproduce");
  claim.statement = static_cast<char>(std::toupper(static_cast<unsigned char>(claim.statement.front()))) +
                    claim.statement.substr(1) + ".";
  claim.kind = Kind::positive;
  claim.read = fmt::format("claim_value[claim=\"{}\"]", claim.id);
  claim.verdict = fmt::format("claim_verdict[claim=\"{}\"]", claim.id);
  claim.p = fmt::format("claim_p[claim=\"{}\"]", claim.id);
  claim.quantity = fmt::format("claim_quantity[claim=\"{}\"]", claim.id);
}

ClaimRow read_claim(TomlReader& reader, const Claims& all) {
  ClaimRow claim;
  reader.require_text("id", claim.id);
  reader.require_text("source", claim.source);
  reader.read("run", claim.run);
  const RunRow* run = all.find_run(claim.run);
  if (!claim.run.empty() && run == nullptr) {
    reader.fail("run", fmt::format("one of {}", fmt::join(mapped(all.runs, &RunRow::name), ", ")));
  }
  if (run != nullptr && run->study == "reproduce") {
    read_training_claim(reader, claim);
    reader.finish();
    return claim;
  }
  reader.require_text("statement", claim.statement);
  std::string kind;
  reader.require_text("kind", kind);
  const auto found = std::ranges::find(kind_names, kind);
  if (found == kind_names.end()) reader.fail("kind", fmt::format("one of {}", fmt::join(kind_names, ", ")));
  claim.kind = static_cast<Kind>(found - kind_names.begin());
  for (const auto& [key, text] :
       {std::pair("id", &claim.id), std::pair("source", &claim.source), std::pair("statement", &claim.statement)}) {
    if (printable(*text) != *text) reader.fail(key, "one line without control characters");
  }
  for (const auto& [key, text] :
       {std::pair("formula", &claim.formula), std::pair("theory", &claim.theory), std::pair("read", &claim.read),
        std::pair("verdict", &claim.verdict), std::pair("condition", &claim.condition),
        std::pair("derivation", &claim.derivation), std::pair("expected_text", &claim.expected_text),
        std::pair("reason", &claim.reason)}) {
    reader.read(key, *text);
  }
  const auto is_one_of = [&](std::initializer_list<Kind> kinds) { return std::ranges::count(kinds, claim.kind) > 0; };
  const bool has_expected = reader.read("expected", claim.expected);
  const bool has_threshold = reader.read("threshold", claim.threshold);
  const bool is_number = claim.expected_text.empty();
  if (!is_number && claim.kind != Kind::fact) reader.fail("expected_text", "no text, unless kind is fact");
  if (!claim.condition.empty() && claim.kind != Kind::law) reader.fail("condition", "no condition, unless kind is law");
  if (is_one_of({Kind::exact, Kind::alike, Kind::slope, Kind::fact}) && is_number &&
      !(has_expected && std::isfinite(claim.expected))) {
    reader.fail("expected", "a finite number");
  }
  if (is_one_of({Kind::exact, Kind::bound, Kind::alike, Kind::slope, Kind::fact}) && is_number) {
    if (!has_threshold || !std::isfinite(claim.threshold)) reader.fail("threshold", "a finite number");
    if (claim.kind != Kind::bound && claim.threshold < 0.0) reader.fail("threshold", "a number that is not negative");
    reader.require_text("derivation", claim.derivation);
  }
  if (claim.kind == Kind::not_testable) {
    reader.require_text("reason", claim.reason);
  } else if (claim.kind == Kind::law) {
    reader.require_text("verdict", claim.verdict);
  } else {
    reader.require_text("read", claim.read);
  }
  reader.finish();
  return claim;
}

}  // namespace

const RunRow* Claims::find_run(std::string_view name) const {
  const auto found = std::ranges::find(runs, name, &RunRow::name);
  return found == runs.end() ? nullptr : &*found;
}

Claims read_claims(const std::string& path) {
  const config::Tree tree = config::read_tree(path);
  TomlReader root(tree);
  Claims all;
  root.read("regimes", all.regimes);
  const bool increasing = std::ranges::adjacent_find(all.regimes, std::not_fn(std::less())) == all.regimes.end();
  if (all.regimes.empty() || !increasing || !(all.regimes.front() > 0.0 && std::isfinite(all.regimes.back()))) {
    root.fail("regimes", "increasing positive finite numbers");
  }
  for (TomlReader& reader : root.tables("run", "tables, as in [[run]]")) {
    all.runs.push_back(read_run(reader));
    config::require_different("run.name", mapped(all.runs, &RunRow::name));
  }
  for (TomlReader& reader : root.tables("claim", "tables, as in [[claim]]")) {
    all.claims.push_back(read_claim(reader, all));
  }
  config::require_different("claim.id", mapped(all.claims, &ClaimRow::id));
  root.finish();
  return all;
}

}  // namespace periscope::ledger
