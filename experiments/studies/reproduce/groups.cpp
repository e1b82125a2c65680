#include "experiments/studies/reproduce/groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "experiments/engine/settings/toml_reader.h"
#include "sim/base/error.h"
#include "sim/base/mapped.h"
#include "sim/base/printable.h"
#include "sim/spec/stack_keys.h"

namespace periscope::reproduce {
namespace {

using training::TrainConfig;

using Settings = std::vector<std::string>;  // "key=value"

const std::vector<std::string> two{"pre", "peri"};
const std::vector<std::string> three{"post", "pre", "peri"};
const std::vector<std::string> five{"post", "pre", "peri", "a+c", "b-only"};

std::vector<std::string> keys_of(const Settings& settings) {
  return mapped(settings, [](const std::string& setting) { return setting.substr(0, setting.find('=')); });
}

/// Appends the groups of a study to `groups`.
void add_groups(std::string_view study, const TrainConfig& shared, bool quick, std::vector<Group>& groups) {
  // Adds a group per placement if `of` equals `study`. `set` has fixed values, `scaled` values derived from the shared
  // ones. `suffix` follows the placement in a group's name.
  const auto add = [&](std::string_view of, const std::vector<std::string>& placements, const std::string& suffix,
                       const Settings& set, const Settings& scaled = {}) {
    if (of != study) return;
    Settings settings = set;
    settings.insert(settings.end(), scaled.begin(), scaled.end());
    const config::Tree tree = config::read_tree("", settings);
    const config::TomlReader root(tree);
    for (const std::string& placement : placements) {
      Group group{.name = suffix.empty() ? placement : fmt::format("{}, {}", placement, suffix),
                  .study = std::string(study),
                  .spec = shared.with_placement(*find_placement(placement)),
                  .train = shared.train,
                  .set = keys_of(set),
                  .scaled = keys_of(scaled)};
      config::read_section(root, model_section, group.spec.model);
      config::read_section(root, init_section, group.spec.init);
      config::read_section(root, input_section, group.spec.input);
      config::read_section(root, train_section, group.train);
      groups.push_back(std::move(group));
    }
  };
  const auto add_rates = [&](std::string_view of, const std::vector<double>& factors,
                             const std::vector<std::string>& placements, const std::string& suffix, const Settings& set,
                             const Settings& scaled) {
    for (const double factor : factors) {
      Settings with_rate = scaled;
      with_rate.push_back(fmt::format("train.lr={}", shared.train.lr * factor));
      add(of, placements, fmt::format("{}rate x {:.2g}", suffix, factor), set, with_rate);
    }
  };
  const std::vector<double> factors{0.1, 1.0 / 3.0, 1.0, 3.0, 10.0};
  add("base", five, "", {});
  add("frozen", {"peri"}, "output gains frozen", {"train.frozen=[\"norm_b\"]"});
  add("layer-norm", {"peri"}, "LayerNorm", {"model.norm=layer"});
  add("embedding-norm", two, "embedding norm", {"model.embedding_norm=true"});
  add("olmo", {"peri"}, "QK-norm", {"model.qk_norm=head"});
  add("olmo", {"b-only"}, "QK-norm (OLMo 2)", {"model.qk_norm=full"});
  // Factor 1 is in the base study.
  add_rates("rates", quick ? std::vector{1.0 / 3.0, 3.0} : std::vector{0.1, 1.0 / 3.0, 3.0, 10.0}, three, "", {}, {});
  add_rates("rates-warmup", factors, two, "warm-up x 3, ", {},
            {fmt::format("train.warmup={}", std::min(1.0, 3.0 * shared.train.warmup))});
  add_rates("rates-short", factors, two, "half the length, ", {},
            {fmt::format("input.tokens={}", std::max(1, shared.base.input.tokens / 2)),
             fmt::format("train.batch={}", 2 * shared.train.batch)});
  add_rates("no-warmup", {1.0 / 3.0, 1.0}, five, "no warm-up, ", {"train.warmup=0"}, {});
  for (const double decay : {0.0, 0.0033, 0.33}) {
    add("decay", two, fmt::format("weight decay {:g}", decay), {fmt::format("train.weight_decay={}", decay)});
  }
  for (const double over_width : {10.0, 2.0, 1.0, 0.1}) {
    const std::string std = fmt::format("init.std={}", std::sqrt(over_width / shared.base.model.width));
    add("init", two, fmt::format("variance {:g}/d", over_width), {"init.scheme=normal", std});
  }
  add("init", two, "Xavier", {"init.scheme=xavier"});
  for (const double rate : {0.03, 0.1, 0.3, 1.0}) {
    add("sgd", three, fmt::format("SGD, rate {:g}", rate), {"train.optimizer=sgd", fmt::format("train.lr={}", rate)});
  }
}

using Json = nlohmann::ordered_json;

Json resolved_of(const Group& group) {
  Json json = config::resolved_json(group.spec);
  json["train"] = config::section_json(train_section, group.train);
  return json;
}

/// Returns a key and its value in the group, such as `model.norm = "layer"`.
std::string with_value(const Group& group, std::string_view key) {
  const std::size_t dot = key.find('.');
  const Json value = resolved_of(group)[std::string(key.substr(0, dot))][std::string(key.substr(dot + 1))];
  return fmt::format("{} = {}", key, config::toml_text(value));
}

/// Returns everything that determines a group's runs. The warm-up's share is replaced by its only effect, the rate of
/// the first step: with few steps, different shares can have the same effect.
std::string identity_of(const Group& group) {
  Json json = resolved_of(group);
  json["train"]["warmup"] = learning_rate(group.train, 1);
  return json.dump();
}

}  // namespace

const std::vector<Exhibit>& exhibits() {
  static const std::vector<Exhibit> all{
      {"1", {"base"}, true},                     // Figures 1, 6, 14, 15: variance and magnitude over depth and training
      {"3", {"base", "rates"}, true},            // Figures 3, 12: loss against learning rate
      {"4", {"base"}, true},                     // Figure 4, Table 1: stability over seeds
      {"5", {"base"}, true},                     // Figure 5: gradient of the last layer
      {"7", {"base"}, true},                     // Figure 7: gradients of the layers, at initialisation and at the end
      {"8", {"base", "frozen"}, false},          // Figure 8: output norms whose gain stays 1
      {"9", {"base"}, true},                     // Figures 9, 39: angular distance, and gains of the output norms
      {"10", {"base", "decay", "init"}, false},  // Figure 10, Tables 7 to 9: weight decay and initialisation
      {"11", {"base"}, true},                    // Figure 11: largest activations and the range of FP16
      {"16", {"rates-warmup"}, false},           // Figures 16, 18: loss against learning rate, three times the warm-up
      {"17", {"rates-short"}, false},            // Figure 17: loss against learning rate, sequences of half the length
      {"19", {"base", "layer-norm"}, false},     // Figure 19: LayerNorm
      {"20", {"base", "embedding-norm"}, false},  // Figures 20 to 22: embedding norm
      {"32", {"base", "olmo"}, false},            // Figures 32 to 34, Table 6: QK-norm and OLMo 2's placement
      {"35", {"sgd"}, false},                     // Figures 35 to 38: SGD
      {"table5", {"base"}, true},                 // Table 5: final loss of the placements at one learning rate
      {"warmup", {"base", "no-warmup"}, false},   // Training without warm-up, and steps to a given loss (R10, R11)
      {"growth", {"base"}, true}};  // Growth identity (T15) during training, and Eq. 4, which lacks its cosine term
  return all;
}

std::vector<const Exhibit*> select_exhibits(const std::vector<std::string>& names, bool quick) {
  std::vector<const Exhibit*> found;
  for (const Exhibit& exhibit : exhibits()) {
    const bool wanted = names.empty() ? exhibit.quick || !quick : std::ranges::find(names, exhibit.name) != names.end();
    if (wanted) found.push_back(&exhibit);
  }
  const auto known = mapped(exhibits(), [](const Exhibit& exhibit) { return std::string(exhibit.name); });
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    throw ConfigError(fmt::format("--figure {}: expected one of {}{}", shortened(name), fmt::join(known, ", "),
                                  suggestion(name, known)));
  }
  return found;
}

std::vector<Group> groups_of(const std::vector<const Exhibit*>& exhibits, const TrainConfig& shared, bool quick) {
  std::vector<Group> groups;
  std::set<std::string_view> done;
  for (const Exhibit* exhibit : exhibits) {
    for (const std::string_view study : exhibit->studies) {
      if (done.insert(study).second) add_groups(study, shared, quick, groups);
    }
  }
  return groups;
}

void reject_settings_of_studies(const std::vector<const Exhibit*>& exhibits, const training::TrainConfig& shared) {
  const Group given{.name = {}, .study = "base", .spec = shared.stacks().front(), .train = shared.train};
  for (const Exhibit* exhibit : exhibits) {
    for (const Group& group : groups_of({exhibit}, shared, false)) {
      for (const std::string& key : group.set) {
        if (!shared.is_set(key)) continue;
        throw ConfigError(
            fmt::format("{} is set: expected this key to be unset for figure {}, whose study {} sets it; --figure "
                        "selects other figures",
                        with_value(given, key), exhibit->name, group.study));
      }
    }
  }
}

void reject_equal_groups(const std::vector<Group>& groups) {
  std::map<std::string, const Group*> before;
  for (const Group& group : groups) {
    const auto [same, is_new] = before.emplace(identity_of(group), &group);
    if (is_new) continue;
    std::vector<std::string> found;
    for (const auto* list : {&group.set, &group.scaled}) {
      for (const std::string& key : *list) {
        found.push_back(with_value(group, key));
        if (key == "train.warmup") found.push_back(fmt::format("train.steps = {}", group.train.steps));
      }
    }
    throw ConfigError(fmt::format(
        "{}: the groups \"{}\" and \"{}\" consist of the same runs; expected settings in which they differ, "
        "or other figures",
        fmt::join(found, ", "), same->second->name, group.name));
  }
}

void set_proxy_defaults(TrainConfig& config, bool quick) {
  const auto unless_given = [&](const char* key, auto& field, auto value) {
    if (!config.is_set(key)) field = value;
  };
  ModelSpec& m = config.base.model;
  const bool shaped = config.is_set("model.width") || config.is_set("model.heads") || config.is_set("model.preset");
  if (!config.is_set("model.preset")) unless_given("model.layers", m.layers, 12);
  if (!shaped) {
    m.width = 96;
    m.heads = 6;
    if (!config.is_set("model.kv_heads")) m.kv_heads = m.heads;
    if (!config.is_set("model.head_dim")) m.head_dim = m.width / m.heads;
    if (!config.is_set("model.mlp_width")) m.mlp_width = 4 * m.width;
  }
  unless_given("model.vocab", m.vocab, 256);
  unless_given("input.tokens", config.base.input.tokens, 64);
  if (!config.base.init.embedding_std)  // the second moment 0.02² of tables drawn from N(0, 0.02²)
    unless_given("input.second_moment", config.base.input.second_moment, 4e-4);
  TrainSpec& t = config.train;
  unless_given("train.steps", t.steps, quick ? 240 : 1000);
  unless_given("train.batch", t.batch, quick ? 8 : 16);
  unless_given("train.lr", t.lr, 3e-3);
  unless_given("train.record_every", t.record_every, quick ? 60 : 100);
}

}  // namespace periscope::reproduce
