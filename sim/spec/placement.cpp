#include "sim/spec/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "sim/base/error.h"

namespace periscope {
namespace {

using Place = RulePlace;

// Rules of the placements listed under T1 in docs/theory.
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

SublayerRule c_and_first_a(const Place& p) { return {.norm_a = p.addition == 0, .norm_c = true}; }
SublayerRule keel(const Place& p) {
  return p.layer == 0 ? a(p) : SublayerRule{.norm_a = true, .norm_c = true, .alpha = 2.0 * p.layers};
}
SublayerRule beam(const Place& p) {
  const double n = p.addition + 2.0;  // terms in the stream: embedding, earlier branches, this branch
  return {.norm_a = true, .norm_b = true, .alpha = std::sqrt((n - 1.0) / n), .beta = std::sqrt(1.0 / n)};
}
SublayerRule u_mup(const Place& p) {
  const double n = p.layers + p.addition;  // 1/τ² of u-muP if its two ratio hyperparameters are 1
  return {.norm_a = true, .alpha = std::sqrt(n / (n + 1.0)), .beta = std::sqrt(1.0 / (n + 1.0))};
}
SublayerRule hybrid(const Place& p) { return {.norm_c = p.kind == ModuleKind::attention}; }
SublayerRule sphere(const Place&) { return {.norm_b = true, .norm_c = true, .alpha = 0.95, .beta = 0.05}; }
SublayerRule scaled_channels(const Place&) { return {.norm_a = true, .scales_channels = true}; }
SublayerRule muse(const Place&) { return {.norm_a = true, .norm_b = true, .alpha = std::sqrt(0.75), .beta = 0.5}; }

double init_deepnorm(int layers) { return std::pow(8.0 * layers, -0.25); }
double init_glm(int layers) { return 1.0 / std::sqrt(2.0 * layers); }

using enum Wiring;

constexpr PlacementDefaults plain{};
constexpr PlacementDefaults final{.final_norm = true};
constexpr PlacementDefaults both_ends{.final_norm = true, .embedding_norm = true};
constexpr PlacementDefaults with_qkv{.final_norm = true, .qk_norm = QkNorm::head, .v_norm = true};
constexpr PlacementDefaults with_inner{.final_norm = true, .inner_norm = InnerNorm::both};
constexpr PlacementDefaults on_a_sphere{.embedding_norm = true, .qk_norm = QkNorm::head, .norm = NormKind::l2};

// One row per placement.
// clang-format off
const std::array table{
    //        name             norms                scales
    //        used by                                                          ends       wiring        rule        init gain
    Placement{"none",          "-",                 "1",
              "baseline",                                                      plain,     sequential,   none,       nullptr},
    Placement{"post",          "C",                 "1",
              "2017 Transformer, BERT, OPT-350M",                              plain,     sequential,   c,          nullptr},
    Placement{"pre",           "A",                 "1",
              "GPT-2, GPT-3, Llama, Qwen, Mistral",                            final,     sequential,   a,          nullptr},
    Placement{"peri",          "A B",               "1",
              "Gemma 2, Gemma 3, Grok-1",                                      final,     sequential,   a_and_b,    nullptr},
    Placement{"b-only",        "B",                 "1",
              "OLMo 2, with QK-norm (recipe olmo2)",                           final,     sequential,   b,          nullptr},
    Placement{"a+c",           "A C",               "1",
              "ablation in the Peri-LN paper; its reviews call this Peri-LN",  plain,     sequential,   a_and_c,    nullptr},
    Placement{"deepnorm",      "C",                 "alpha (2L)^1/4; init of V, O, up, down x (8L)^-1/4",
              "DeepNet (decoder only)",                                        plain,     sequential,   c_deepnorm, init_deepnorm},
    Placement{"deepnorm-glm",  "C",                 "alpha (2L)^1/2; init of V, O, up, down x (2L)^-1/2",
              "GLM-130B",                                                      plain,     sequential,   c_glm,      init_glm},
    Placement{"mix",           "C, then A",         "1; the first L/4 layers are Post",
              "Mix-LN",                                                        final,     sequential,   c_then_a,   nullptr},
    Placement{"lns",           "A",                 "input gain 1/sqrt(layer), layer from 1",
              "LayerNorm scaling, LNS-1B",                                     final,     sequential,   a_lns,      nullptr},
    Placement{"depth-scaled",  "A",                 "beta 1/sqrt(2L)",
              "Depth-muP",                                                     final,     sequential,   a_scaled,   nullptr},
    Placement{"residual-dual", "C + second stream", "1; output x_L + N(r_L), r = sum of branches",
              "ResiDual",                                                      final,     dual,         c,          nullptr},
    Placement{"keel",          "A C",               "alpha 2L; the first layer is Pre",
              "KEEL",                                                          plain,     sequential,   keel,       nullptr},
    Placement{"beam",          "A B",               "alpha sqrt((n-1)/n), beta 1/sqrt(n), n = l + 2",
              "Beam-1.0",                                                      final,     sequential,   beam,       nullptr},
    Placement{"u-mup",         "A",                 "alpha sqrt((L+l)/(L+l+1)), beta 1/sqrt(L+l+1)",
              "unit-scaled muP",                                               final,     sequential,   u_mup,      nullptr},
    Placement{"hybridnorm",    "C of attention",    "1; QK-norm and V-norm of every head",
              "HybridNorm",                                                    with_qkv,  sequential, hybrid, nullptr},
    Placement{"sub-ln",        "A, inner norms",     "1; norms before W_o and W_down",
              "Magneto, BitNet b1.58",                                         with_inner, sequential, a, nullptr},
    Placement{"ngpt",          "B C, of length 1",  "alpha 0.95, beta 0.05; QK-norm of every head",
              "nGPT",                                                          on_a_sphere, sequential, sphere, nullptr},
    Placement{"layer-scale",   "A",                 "1; per-channel factor model.layer_scale after the module",
              "CaiT, DINOv2",                                                  final,     sequential, scaled_channels, nullptr},
    Placement{"muse-spark",    "A B",               "alpha sqrt(3)/2, beta 1/2 (initial values of its gates)",
              "Muse Spark",                                                    both_ends, sequential,   muse,       nullptr},
    Placement{"parallel",      "A, shared",         "1; attention and MLP in parallel",
              "GPT-J, Phi-2, Cohere",                                          final,     parallel,     a,          nullptr},
    Placement{"parallel-two",  "A, one each",       "1; attention and MLP in parallel",
              "GPT-NeoX, Pythia, Falcon-40B",                                  final,     parallel_two, a,          nullptr},
    Placement{"span",          "C; A of sublayer 0", "1; the MLP's skip starts at the layer's input",
              "SpanNorm",                                                      plain,     span,         c_and_first_a,    nullptr},
    Placement{"x0",            "A",                 "x <- r x + lambda x_0 before a layer, r 1.15 to 1.05, lambda 0.20 to 0.05",
              "nanochat",                                                      both_ends, first_input,  a,          nullptr},
    Placement{"hyper",         "A",                 "1; model.streams streams, mixed by model.stream_mixing",
              "Hyper-Connections with static mixing",                          final,     hyper,        a,          nullptr},
};
// clang-format on

/// Returns a copy of the text that lives as long as the program, because copied placements refer to it.
std::string_view interned(std::string_view name) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> names;
  const std::scoped_lock lock(mutex);
  return *names.emplace(name).first;
}

double scale_at(const DepthExpression& scale, std::string_view module, std::string_view key, const RulePlace& place) {
  const double value = scale.at(place.addition, place.layers);
  if (std::isfinite(value)) return value;
  throw ConfigError(
      fmt::format("model.placement.{}{} = \"{}\": expected a finite number for every l; it is {} at l = {}, L = {}, "
                  "where l counts earlier additions from 0",
                  module, key, scale.text(), std::isnan(value) ? "NaN" : "infinite", place.addition, place.layers));
}

}  // namespace

std::span<const Placement> placement_table() { return table; }

std::optional<Placement> find_placement(std::string_view name) {
  const auto* row = std::ranges::find(table, name == "residual" ? "residual-dual" : name, &Placement::name);
  return row == table.end() ? std::nullopt : std::optional(*row);
}

SublayerRule FreeForm::at(const RulePlace& place) const {
  const FreeForm* form = this;
  std::string_view module;  // "attention." or "mlp.", inserted into the key of an error
  if (attention != nullptr) {
    const bool of_attention = place.kind == ModuleKind::attention;
    const Placement& part = of_attention ? *attention : *mlp;
    if (!part.is_custom()) return part.at(place);
    form = part.custom.get();
    module = of_attention ? "attention." : "mlp.";
  }
  SublayerRule own = form->rule;
  if (form->alpha) own.alpha = scale_at(*form->alpha, module, "alpha", place);
  if (form->beta) own.beta = scale_at(*form->beta, module, "beta", place);
  return own;
}

SublayerRule Placement::at(const RulePlace& place) const { return rule != nullptr ? rule(place) : custom->at(place); }

bool Placement::sets_only_rules() const {
  return wiring == Wiring::sequential && branch_init_gain == nullptr && defaults.norm == NormKind::rms &&
         defaults.qk_norm == QkNorm::none && !defaults.v_norm && defaults.inner_norm == InnerNorm::none;
}

bool Placement::is_named_custom() const { return is_custom() && name != unnamed_placement; }

Placement custom_placement(const SublayerRule& rule, std::string_view name) {
  return free_placement(FreeForm{.rule = rule}, name);
}

Placement free_placement(FreeForm form, std::string_view name) {
  const SublayerRule& rule = form.rule;
  const bool by_kind = form.attention != nullptr;
  const bool final_norm = by_kind ? form.mlp->defaults.final_norm || form.attention->defaults.final_norm
                                  : (rule.norm_a || rule.norm_b) && !rule.norm_c;
  return Placement{.name = interned(name),
                   .norms = "free form",
                   .scales = "free form",
                   .used_by = "",
                   .defaults = {.final_norm = final_norm},
                   .custom = std::make_shared<const FreeForm>(std::move(form))};
}

}  // namespace periscope
