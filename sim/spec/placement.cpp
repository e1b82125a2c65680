#include "sim/spec/placement.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <set>
#include <string>

namespace periscope {
namespace {

using Place = RulePlace;

// The rules of T1's table.
SublayerRule none(const Place&) { return {}; }
SublayerRule a(const Place&) { return {.norm_a = true}; }
SublayerRule b(const Place&) { return {.norm_b = true}; }
SublayerRule c(const Place&) { return {.norm_c = true}; }
SublayerRule a_and_b(const Place&) { return {.norm_a = true, .norm_b = true}; }
SublayerRule a_and_c(const Place&) { return {.norm_a = true, .norm_c = true}; }
SublayerRule c_deepnorm(const Place& p) { return {.norm_c = true, .alpha = std::pow(2.0 * p.layers, 0.25)}; }
SublayerRule c_glm(const Place& p) { return {.norm_c = true, .alpha = std::sqrt(2.0 * p.layers)}; }
SublayerRule c_then_a(const Place& p) { return p.layer < p.layers / 4 ? c(p) : a(p); }
SublayerRule a_lns(const Place& p) { return {.norm_a = true, .input_gain = 1.0 / std::sqrt(p.layer + 1.0)}; }
SublayerRule a_scaled(const Place& p) { return {.norm_a = true, .beta = 1.0 / std::sqrt(2.0 * p.layers)}; }

double init_deepnorm(int layers) { return std::pow(8.0 * layers, -0.25); }
double init_glm(int layers) { return 1.0 / std::sqrt(2.0 * layers); }

using enum Wiring;

// One row per placement.
// clang-format off
const std::array table{
    //        name             norms                scales
    //        used by                                                          final  wiring      rule        init gain
    Placement{"none",          "-",                 "1",
              "baseline",                                                      false, sequential, none,       nullptr},
    Placement{"post",          "C",                 "1",
              "2017 Transformer, BERT, OPT-350M",                              false, sequential, c,          nullptr},
    Placement{"pre",           "A",                 "1",
              "GPT-2, GPT-3, Llama, Qwen, Mistral",                            true,  sequential, a,          nullptr},
    Placement{"peri",          "A B",               "1",
              "Gemma 2, Gemma 3, Grok-1",                                      true,  sequential, a_and_b,    nullptr},
    Placement{"b-only",        "B",                 "1",
              "OLMo 2, with QK-norm (recipe olmo2)",                           true,  sequential, b,          nullptr},
    Placement{"a+c",           "A C",               "1",
              "ablation of the Peri-LN paper; what the reviews call Peri-LN",  false, sequential, a_and_c,    nullptr},
    Placement{"deepnorm",      "C",                 "alpha (2L)^1/4; init of V, O, up, down x (8L)^-1/4",
              "DeepNet, a decoder alone",                                      false, sequential, c_deepnorm, init_deepnorm},
    Placement{"deepnorm-glm",  "C",                 "alpha (2L)^1/2; init of V, O, up, down x (2L)^-1/2",
              "GLM-130B",                                                      false, sequential, c_glm,      init_glm},
    Placement{"mix",           "C, then A",         "1; the first L/4 layers are Post",
              "Mix-LN",                                                        true,  sequential, c_then_a,   nullptr},
    Placement{"lns",           "A",                 "input gain 1/sqrt(layer), layer from 1",
              "LayerNorm scaling, LNS-1B",                                     true,  sequential, a_lns,      nullptr},
    Placement{"depth-scaled",  "A",                 "beta 1/sqrt(2L)",
              "Depth-muP",                                                     true,  sequential, a_scaled,   nullptr},
    Placement{"residual-dual", "C + second stream", "1; output x_L + N(r_L), r = sum of branches",
              "ResiDual",                                                      true,  dual,       c,          nullptr},
};
// clang-format on

/// Names that rows had before.
struct FormerName {
  std::string_view former;
  std::string_view name;
};
constexpr std::array former_names{FormerName{.former = "residual", .name = "residual-dual"}};

/// Returns the same text in memory that lives as long as the program: placements are copied freely, and all refer to
/// it.
std::string_view kept(std::string_view name) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> names;
  const std::scoped_lock lock(mutex);
  return *names.emplace(name).first;
}

}  // namespace

std::span<const Placement> placement_table() { return table; }

std::optional<Placement> find_placement(std::string_view name) {
  const auto* former = std::ranges::find(former_names, name, &FormerName::former);
  const auto* row = std::ranges::find(table, former == former_names.end() ? name : former->name, &Placement::name);
  if (row == table.end()) return std::nullopt;
  return *row;
}

SublayerRule Placement::at(const RulePlace& place) const { return rule != nullptr ? rule(place) : custom->rule; }

bool Placement::is_named_custom() const { return is_custom() && name != unnamed_placement; }

Placement custom_placement(const SublayerRule& rule, std::string_view name) {
  return Placement{.name = kept(name),
                   .norms = "free form",
                   .scales = "free form",
                   .used_by = "",
                   .final_norm = (rule.norm_a || rule.norm_b) && !rule.norm_c,
                   .custom = std::make_shared<const FreeForm>(FreeForm{rule})};
}

}  // namespace periscope
