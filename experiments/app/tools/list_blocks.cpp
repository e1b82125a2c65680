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

/// Returns the stacks of the table, by name.
std::vector<std::pair<std::string, StackSpec>> blocks() {
  std::vector<std::pair<std::string, StackSpec>> all;
  for (const Placement& placement : placement_table()) all.emplace_back(placement.name, stack_of(placement));
  const StackSpec pre = stack_of(*find_placement("pre"));
  const auto with = [&](std::string name, const auto& set) {
    all.emplace_back("pre, " + name, pre);
    set(all.back().second.model);
  };
  for (std::size_t i = 0; i < norm_kind_names.size(); ++i) {
    const auto kind = static_cast<NormKind>(i);
    if (kind != pre.model.norm) with(fmt::format("norm {}", norm_kind_names[i]), [=](ModelSpec& m) { m.norm = kind; });
  }
  with("v_norm", [](ModelSpec& m) { m.v_norm = true; });
  with("inner_norm both", [](ModelSpec& m) { m.inner_norm = InnerNorm::both; });
  with("attention_gate head", [](ModelSpec& m) { m.attention_gate = AttentionGate::head; });
  with("attention_gate channel", [](ModelSpec& m) { m.attention_gate = AttentionGate::channel; });
  return all;
}

/// Something done with stacks, and why it does not support one; "" if it does.
struct Use {
  std::string_view name, title;
  std::string (*unsupported)(const StackSpec&);
};

std::string given_weights_unsupported(const StackSpec& plain) {
  StackSpec spec = plain;
  spec.scales = std::make_shared<const WeightScales>();
  return theory::prediction_unsupported(spec);
}

std::string paths_unsupported(const StackSpec& spec) {
  return config::has_single_additions(spec.model) ? "" : "it is not one module at a time that is added to one stream";
}

std::string formats_unsupported(const StackSpec& spec) {
  if (is_pointwise(spec.model.norm)) return "the noise behind norms is that of norms that divide by a size";
  return paths_unsupported(spec);
}

constexpr std::array uses{
    Use{"simulated", "simulated, trained, certified", [](const StackSpec&) { return std::string(); }},
    Use{"signals", "signals predicted", theory::prediction_unsupported},
    Use{"gradients", "gradients predicted", theory::gradient_unsupported},
    Use{"own_width", "at its own width (T25)",
        [](const StackSpec& spec) { return theory::coordinates_unsupported(spec.model); }},
    Use{"given_weights", "at the sizes of given weights", given_weights_unsupported},
    Use{"formats", "formats", formats_unsupported},
    Use{"paths", "gradients' paths", paths_unsupported},
    Use{"headroom", "headroom",
        [](const StackSpec& spec) {
          return std::string(can_scale(spec.model) ? "" : "a stream of another size would not give the same output");
        }},
    Use{"regauge", "regauge",
        [](const StackSpec& spec) { return gauge_unsupported(spec.model, TableFactor::table).value_or(""); }},
};

}  // namespace

nlohmann::ordered_json blocks_json() {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const auto& [name, spec] : blocks()) {
    nlohmann::ordered_json unsupported = nlohmann::ordered_json::object();
    for (const Use& use : uses) {
      if (const std::string reason = use.unsupported(spec); !reason.empty())
        unsupported[std::string(use.name)] = reason;
    }
    all.push_back({{"block", name}, {"unsupported", unsupported}});
  }
  return all;
}

std::string blocks_text() {
  std::vector<std::string> titles{"block"};
  for (const Use& use : uses) titles.emplace_back(use.title);
  dataset::TextTable table(titles);
  std::vector<std::string> reasons;
  for (const auto& block : blocks_json()) {
    std::vector<std::string> row{block["block"].get<std::string>()};
    for (const Use& use : uses) {
      const std::string reason = block["unsupported"].value(std::string(use.name), "");
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
