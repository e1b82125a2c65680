#include "sim/spec/placement.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace periscope {
namespace {

constexpr SublayerRule bare{};
constexpr SublayerRule norm_a{.norm_a = true};
constexpr SublayerRule norm_b{.norm_b = true};
constexpr SublayerRule norm_c{.norm_c = true};

// clang-format off: one row, one placement
const std::array table{
    Placement{
        .name = "none", .norms = "-", .scales = "1", .used_by = "baseline", .rule = [](int, int) { return bare; }},
    Placement{.name = "post",
              .norms = "C",
              .scales = "1",
              .used_by = "2017 Transformer, BERT, OPT-350M",
              .rule = [](int, int) { return norm_c; }},
    Placement{.name = "pre",
              .norms = "A",
              .scales = "1",
              .used_by = "GPT-2, GPT-3, Llama, Qwen, Mistral",
              .final_norm = true,
              .rule = [](int, int) { return norm_a; }},
    Placement{.name = "peri",
              .norms = "A B",
              .scales = "1",
              .used_by = "Gemma 2, Gemma 3, Grok-1",
              .final_norm = true,
              .rule = [](int, int) { return SublayerRule{.norm_a = true, .norm_b = true}; }},
    Placement{.name = "b-only",
              .norms = "B",
              .scales = "1",
              .used_by = "OLMo 2",
              .final_norm = true,
              .rule = [](int, int) { return norm_b; }},
    Placement{.name = "a+c",
              .norms = "A C",
              .scales = "1",
              .used_by = "ablation of the Peri-LN paper; what the reviews call Peri-LN",
              .rule = [](int, int) { return SublayerRule{.norm_a = true, .norm_c = true}; }},
    Placement{
        .name = "deepnorm",
        .norms = "C",
        .scales = "alpha (2L)^1/4; init of V, O, up, down x (8L)^-1/4",
        .used_by = "DeepNet, a decoder alone",
        .rule = [](int, int layers) { return SublayerRule{.norm_c = true, .alpha = std::pow(2.0 * layers, 0.25)}; },
        .branch_init_gain = [](int layers) { return std::pow(8.0 * layers, -0.25); }},
    Placement{.name = "deepnorm-glm",
              .norms = "C",
              .scales = "alpha (2L)^1/2; init of V, O, up, down x (2L)^-1/2",
              .used_by = "GLM-130B",
              .rule = [](int, int layers) { return SublayerRule{.norm_c = true, .alpha = std::sqrt(2.0 * layers)}; },
              .branch_init_gain = [](int layers) { return 1.0 / std::sqrt(2.0 * layers); }},
    Placement{.name = "mix",
              .norms = "C, then A",
              .scales = "1; the first L/4 layers are Post",
              .used_by = "Mix-LN",
              .final_norm = true,
              .rule = [](int layer, int layers) { return layer < layers / 4 ? norm_c : norm_a; }},
    Placement{.name = "lns",
              .norms = "A",
              .scales = "input gain 1/sqrt(layer), layer from 1",
              .used_by = "LayerNorm scaling, LNS-1B",
              .final_norm = true,
              .rule = [](int layer,
                         int) { return SublayerRule{.norm_a = true, .input_gain = 1.0 / std::sqrt(layer + 1.0)}; }},
    Placement{
        .name = "depth-scaled",
        .norms = "A",
        .scales = "beta 1/sqrt(2L)",
        .used_by = "Depth-muP",
        .final_norm = true,
        .rule = [](int, int layers) { return SublayerRule{.norm_a = true, .beta = 1.0 / std::sqrt(2.0 * layers)}; }},
    Placement{.name = "residual-dual",
              .norms = "C + second stream",
              .scales = "1; output x_L + N(r_L), r = sum of branches",
              .used_by = "ResiDual",
              .final_norm = true,
              .two_streams = true,
              .rule = [](int, int) { return norm_c; }},
};
// clang-format on

/// Names that rows had before.
struct FormerName {
  std::string_view former;
  std::string_view name;
};
constexpr std::array former_names{FormerName{.former = "residual", .name = "residual-dual"}};

}  // namespace

std::span<const Placement> placement_table() { return table; }

std::optional<Placement> find_placement(std::string_view name) {
  const auto* former = std::ranges::find(former_names, name, &FormerName::former);
  const auto* row = std::ranges::find(table, former == former_names.end() ? name : former->name, &Placement::name);
  if (row == table.end()) return std::nullopt;
  return *row;
}

Placement custom_placement(const SublayerRule& rule) {
  return Placement{.name = "custom",
                   .norms = "free form",
                   .scales = "free form",
                   .used_by = "",
                   .final_norm = (rule.norm_a || rule.norm_b) && !rule.norm_c,
                   .custom = rule};
}

}  // namespace periscope
