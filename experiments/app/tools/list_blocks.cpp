#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experiments/app/tools/list.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/engine/settings/stack_rules.h"
#include "sim/model/scaled_weights.h"
#include "sim/spec/weight_scales.h"
#include "theory/norms/norm_law.h"
#include "theory/predict/predict.h"

namespace periscope::app {
namespace {

StackSpec stack_of(const Placement& placement) {
  StackSpec spec;
  spec.model.placement = placement;
  take_defaults(placement, spec.model);
  return spec;
}

/// Returns the names and stacks of the table's rows.
std::vector<std::pair<std::string, StackSpec>> blocks() {
  std::vector<std::pair<std::string, StackSpec>> all;
  for (const Placement& placement : placement_table()) all.emplace_back(placement.name, stack_of(placement));
  const StackSpec pre = stack_of(*find_placement("pre"));
  const auto add_pre_with = [&](const std::string& name, const auto& set) {
    all.emplace_back("pre, " + name, pre);
    set(all.back().second.model);
  };
  for (std::size_t i = 0; i < norm_kind_names.size(); ++i) {
    const auto kind = static_cast<NormKind>(i);
    if (kind != pre.model.norm)
      add_pre_with(fmt::format("norm {}", norm_kind_names[i]), [=](ModelSpec& m) { m.norm = kind; });
  }
  add_pre_with("v_norm", [](ModelSpec& m) { m.v_norm = true; });
  add_pre_with("inner_norm both", [](ModelSpec& m) { m.inner_norm = InnerNorm::both; });
  add_pre_with("attention_gate head", [](ModelSpec& m) { m.attention_gate = AttentionGate::head; });
  add_pre_with("attention_gate channel", [](ModelSpec& m) { m.attention_gate = AttentionGate::channel; });
  return all;
}

struct Analysis {
  std::string_view name, title;
  std::string (*unsupported)(const StackSpec&);  ///< reason why the stack is not supported; "" if it is
};

std::string weight_scales_unsupported(const StackSpec& plain) {
  StackSpec spec = plain;
  spec.scales = std::make_shared<const WeightScales>();
  return theory::prediction_unsupported(spec);
}

std::string paths_unsupported(const StackSpec& spec) {
  return config::has_single_additions(spec.model) ? "" : "modules are not added one at a time to a single stream";
}

std::string formats_unsupported(const StackSpec& spec) {
  if (is_pointwise(spec.model.norm))
    return "the theory of rounding noise covers only norms that divide by a root mean square or standard deviation";
  return paths_unsupported(spec);
}

constexpr std::array analyses{
    Analysis{"simulated", "simulated, trained, certified", [](const StackSpec&) { return std::string(); }},
    Analysis{"signals", "signals predicted", theory::prediction_unsupported},
    Analysis{"gradients", "gradients predicted", theory::gradient_unsupported},
    Analysis{"own_width", "finite-width prediction",
             [](const StackSpec& spec) { return theory::coordinates_unsupported(spec.model); }},
    Analysis{"given_weights", "at a checkpoint's weight scales", weight_scales_unsupported},
    Analysis{"formats", "number formats", formats_unsupported},
    Analysis{"paths", "gradients by path", paths_unsupported},
    Analysis{"headroom", "headroom",
             [](const StackSpec& spec) {
               return std::string(can_scale(spec.model) ? "" : "rescaling the stream changes the output");
             }},
    Analysis{"regauge", "regauge",
             [](const StackSpec& spec) { return gauge_unsupported(spec.model, TableFactor::table).value_or(""); }},
};

}  // namespace

nlohmann::ordered_json blocks_json() {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const auto& [name, spec] : blocks()) {
    nlohmann::ordered_json unsupported = nlohmann::ordered_json::object();
    for (const Analysis& analysis : analyses) {
      if (const std::string reason = analysis.unsupported(spec); !reason.empty())
        unsupported[std::string(analysis.name)] = reason;
    }
    all.push_back({{"block", name}, {"unsupported", unsupported}});
  }
  return all;
}

std::string blocks_text() {
  std::vector<std::string> titles{"block"};
  for (const Analysis& analysis : analyses) titles.emplace_back(analysis.title);
  dataset::TextTable table(titles);
  std::vector<std::string> reasons;
  for (const auto& block : blocks_json()) {
    std::vector<std::string> row{block["block"].get<std::string>()};
    for (const Analysis& analysis : analyses) {
      const std::string reason = block["unsupported"].value(std::string(analysis.name), "");
      if (reason.empty()) {
        row.emplace_back("yes");
        continue;
      }
      auto found = std::ranges::find(reasons, reason);
      if (found == reasons.end()) found = reasons.insert(reasons.end(), reason);
      row.push_back(fmt::format("({})", found - reasons.begin() + 1));
    }
    table.add(std::move(row));
  }
  std::string text = table.text() + "\n";
  for (std::size_t i = 0; i < reasons.size(); ++i) text += fmt::format("({}) {}\n", i + 1, reasons[i]);
  return text;
}

}  // namespace periscope::app
