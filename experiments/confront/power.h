#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/common/agreement.h"
#include "experiments/common/netcdf_file.h"
#include "experiments/common/options.h"
#include "experiments/confront/power_list.h"
#include "experiments/ladder/ladder.h"

namespace periscope {

/// One stack of a configuration against one theory.
struct Confrontation {
  std::string placement;
  std::string input;
  Verdict verdict = Verdict::not_checked;
  std::string reason;
  std::string by;         ///< the worst cell or contrast
  double excess = 0.0;    ///< its excess
  double critical = 0.0;  ///< and the excess at which it is rejected

  /// Above 1 a stack is rejected, by this factor.
  [[nodiscard]] double margin() const { return critical > 0.0 ? excess / critical : 0.0; }
};

/// A theory against a configuration. The right theory is rejected if any stack rejects it, and so is a wrong one that
/// is told to all stacks or to some.
struct PowerRow {
  std::string theory;
  bool is_true = false;
  std::vector<std::string> settings;  ///< what theory was told
  std::string config;
  std::vector<Confrontation> stacks;
  double seconds = 0.0;  ///< that the predictions took

  [[nodiscard]] bool rejected() const;
  /// A right theory that is not rejected, or a wrong one that is.
  [[nodiscard]] bool as_it_should_be() const { return rejected() != is_true; }
  /// The stack with the largest margin.
  [[nodiscard]] const Confrontation& clearest() const;
};

struct PowerResult {
  PowerList list;
  Config first;  ///< the first configuration, for provenance
  std::vector<PowerRow> rows;
};

/// The configuration `config` of a list, as the common flags change it; with `told` as after --theory-set.
LadderConfig load_listed(const PowerConfig& config, const CommonOptions& options, const std::vector<std::string>& told);

/// The stack of a judgement as a confrontation.
Confrontation confrontation_of(const StackSpec& spec, const Agreement& agreement);

/// Measures every configuration once and confronts it with the right theory and with every wrong one. A wrong theory
/// takes the right one's place in the judgement of the whole run, one stack at a time, so that its stack is held to the
/// same familywise error as in a run of its own.
PowerResult measure_power(const PowerList& list, const CommonOptions& options);

bool all_as_they_should_be(const PowerResult& result);
std::string power_table(const PowerResult& result);
nlohmann::ordered_json power_json(const PowerResult& result);
NetcdfDataset power_dataset(const PowerResult& result);

}  // namespace periscope
