#include "experiments/common/stack_result.h"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/common/imprecise.h"

namespace periscope {
namespace {

using Json = nlohmann::ordered_json;

std::vector<double> z_scores(const Curve& measured, const Curve& predicted) {
  std::vector<double> z;
  for (std::size_t i = 0; i < measured.value.size(); ++i) {
    z.push_back(Cell{.measured = measured.value[i],
                     .measured_error = measured.standard_error[i],
                     .predicted = predicted.value[i],
                     .predicted_error = predicted.standard_error[i]}
                    .z());
  }
  return z;
}

Json curve_json(const Curve* measured, const Curve* predicted, const Curve* limit = nullptr) {
  Json json = Json::object();
  if (measured != nullptr) {
    json["measured"] = measured->value;
    json["stderr"] = measured->standard_error;
  }
  if (predicted != nullptr) {
    json["predicted"] = predicted->value;
    json["predicted_stderr"] = predicted->standard_error;
  }
  if (limit != nullptr) json["predicted_limit"] = limit->value;
  if (measured != nullptr && predicted != nullptr) json["z"] = z_scores(*measured, *predicted);
  return json;
}

/// "imprecise": the entries of a predicted gradient that miss the wanted standard error; no key if none does.
void add_imprecise(Json& json, const theory::Prediction& prediction, Statistic statistic, const Curve* predicted) {
  const std::vector<std::size_t> entries = imprecise_entries(prediction, statistic, predicted);
  if (!entries.empty()) json["imprecise"] = entries;
}

Json worst_json(const Agreement& agreement) {
  const Cell& worst = agreement.cells[static_cast<std::size_t>(agreement.worst)];
  return {{"name", worst.name()},
          {"statistic", statistic_names[static_cast<std::size_t>(worst.statistic)]},
          {"site", worst.weight ? weight_names[static_cast<std::size_t>(*worst.weight)] : name_of(worst.site)},
          {"index", worst.index},
          {"z", worst.z()},
          {"beyond_finite_width", worst.excess()},
          {"critical", agreement.critical}};
}

/// T22: what the verdict could have refused, overall and for every statistic.
Json power_json(const Agreement& agreement) {
  Json statistics = Json::object();
  for (const StatisticPower& s : agreement.power.statistics) {
    statistics[std::string(statistic_names[static_cast<std::size_t>(s.statistic)])] = {
        {"worst", s.worst},
        {"median", s.median},
        {"limit", s.limit},
        {"at", agreement.cells[static_cast<std::size_t>(s.cell)].name()}};
  }
  return {{"worst", agreement.power.worst}, {"median", agreement.power.median}, {"statistics", statistics}};
}

Json contrasts_json(const Agreement& agreement) {
  Json all = Json::array();
  for (const Cell& cell : agreement.cells) {
    if (cell.contrast.empty()) continue;
    all.push_back({{"name", cell.name()},
                   {"deviation", cell.measured},
                   {"stderr", cell.error()},
                   {"allowance", cell.allowance},
                   {"excess", cell.excess()},
                   {"power", cell.smallest_rejected(agreement.level)}});
  }
  return all;
}

Json cell_json(const StackResult& result) {
  Json cell{{"placement", resolved_json(result.spec)["model"]["placement"]},
            {"input", input_kind_names[static_cast<std::size_t>(result.spec.input.kind)]}};
  const Profile& predicted = result.prediction.profile;
  const Profile* measured = result.measurement ? &result.measurement->profile : nullptr;
  Json sites = Json::object();
  for (const auto& [key, curve] : measured != nullptr ? measured->curves : predicted.curves) {
    const auto& [statistic, site] = key;
    const std::string name(statistic_names[static_cast<std::size_t>(statistic)]);
    const std::string site_name(name_of(site));
    Json& slot = site == Signal::x_out ? cell[name] : sites[site_name][name];
    slot = {{"site", site_name}};
    const bool at_width = result.prediction.exact_at_width_for(statistic, site);
    slot.update(curve_json(measured != nullptr ? &curve : nullptr, predicted.find(statistic, site),
                           at_width ? result.prediction.limit.find(statistic, site) : nullptr));
    add_imprecise(slot, result.prediction, statistic, predicted.find(statistic, site));
  }
  for (const auto& [key, curve] : measured != nullptr ? measured->weight_curves : predicted.weight_curves) {
    const auto& [statistic, weight] = key;
    Json& slot = cell[fmt::format("weight_{}", statistic_names[static_cast<std::size_t>(statistic)])]
                     [std::string(weight_names[static_cast<std::size_t>(weight)])];
    slot = curve_json(measured != nullptr ? &curve : nullptr, predicted.find(statistic, weight));
    add_imprecise(slot, result.prediction, statistic, predicted.find(statistic, weight));
  }
  cell["sites"] = sites;
  cell["finite_width"] = result.prediction.finite_width;
  cell["theory"] = {{"replicates", result.prediction.replicates},
                    {"patterns", result.prediction.samples},
                    {"patterns_back", result.prediction.backward_samples}};
  if (result.prediction.exact_at_width) {
    cell["theory"]["finite_width_replicates"] = result.prediction.finite_width_replicates;
  }
  if (!result.prediction.refusal.empty()) cell["theory"]["refused"] = result.prediction.refusal;
  if (measured == nullptr) return cell;
  if (result.measurement->diverged_seeds > 0) {
    cell["diverged"] = {{"seeds", result.measurement->diverged_seeds}, {"sublayer", result.measurement->diverged_at}};
  }
  cell["verdict"] = name_of(result.agreement.verdict);
  if (!result.agreement.reason.empty()) cell["reason"] = result.agreement.reason;
  if (result.agreement.worst >= 0) {
    cell["worst"] = worst_json(result.agreement);
    cell["rejected"] = result.agreement.rejected;
    if (!result.agreement.by.empty()) cell["by"] = result.agreement.by;
    cell["power"] = power_json(result.agreement);
    cell["contrasts"] = contrasts_json(result.agreement);
  }
  return cell;
}

}  // namespace

Json cells_json(const std::vector<StackResult>& results) {
  Json cells = Json::array();
  for (const StackResult& result : results) cells.push_back(cell_json(result));
  return cells;
}

bool any_disagrees(const std::vector<StackResult>& results) {
  return std::ranges::any_of(results, [](const StackResult& r) { return r.agreement.verdict == Verdict::disagrees; });
}

}  // namespace periscope
