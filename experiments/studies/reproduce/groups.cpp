#include "experiments/studies/reproduce/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "sim/base/error.h"
#include "sim/base/printable.h"

namespace periscope::reproduce {
namespace {

using training::TrainConfig;

const std::vector<Exhibit>& all_exhibits() {
  static const std::vector<Exhibit> all{
      {"1", "Figures 1, 6, 14, 15: variance and magnitude over depth and training", {"base"}, true},
      {"3", "Figures 3, 12: loss over the learning rate", {"base", "rates"}, true},
      {"4", "Figure 4, Table 1: stability over seeds", {"base"}, true},
      {"5", "Figure 5: gradient of the last layer", {"base"}, true},
      {"7", "Figure 7: gradients of the layers, at initialisation and at the end", {"base"}, true},
      {"8", "Figure 8: output norms whose gain stays 1", {"base", "frozen"}, false},
      {"9", "Figures 9, 39: angular distance, and gains of the output norms", {"base"}, true},
      {"10", "Figure 10, Tables 7 to 9: weight decay and initialisation", {"base", "decay", "init"}, false},
      {"11", "Figure 11: largest activations against FP16", {"base"}, true},
      {"16", "Figures 16, 18: loss over the learning rate, three times the warm-up", {"rates-warmup"}, false},
      {"17", "Figure 17: loss over the learning rate, sequences of half the length", {"rates-short"}, false},
      {"19", "Figure 19: LayerNorm", {"base", "layer-norm"}, false},
      {"20", "Figures 20 to 22: embedding norm", {"base", "embedding-norm"}, false},
      {"32", "Figures 32 to 34, Table 6: QK-norm and OLMo 2's placement", {"base", "olmo"}, false},
      {"35", "Figures 35 to 38: SGD", {"sgd"}, false},
      {"table5", "Table 5: final loss of the placements at one learning rate", {"base"}, true},
      {"warmup", "Without warm-up, and steps to a given loss (R10, R11)", {"base", "no-warmup"}, false},
      {"growth", "Growth identity T15 along training, and Eq. 4, its form without the cosine", {"base"}, true}};
  return all;
}

/// Adds groups of a study.
class StudyGroups {
 public:
  using Change = std::function<void(StackSpec&, TrainSpec&)>;

  StudyGroups(std::string name, const TrainConfig& shared, std::vector<Group>& groups)
      : name_(std::move(name)), shared_(shared), groups_(groups) {}

  void add(const std::vector<std::string>& placements, const std::string& what, const Change& change) const {
    for (const std::string& placement : placements) {
      Group group{.name = what.empty() ? placement : fmt::format("{}, {}", placement, what),
                  .study = name_,
                  .spec = shared_.with_placement(*find_placement(placement)),
                  .train = shared_.train};
      change(group.spec, group.train);
      groups_.push_back(std::move(group));
    }
  }

 private:
  std::string name_;
  const TrainConfig& shared_;
  std::vector<Group>& groups_;
};

const std::vector<std::string> three{"post", "pre", "peri"};
const std::vector<std::string> two{"pre", "peri"};

/// Factors on the shared learning rate, which the base study has with factor 1.
const std::vector<double> rate_factors{0.1, 1.0 / 3.0, 3.0, 10.0};

void add_rates(const StudyGroups& study, const std::vector<std::string>& placements, const std::vector<double>& factors,
               const std::string& what, const StudyGroups::Change& change) {
  for (const double factor : factors) {
    const auto at_rate = [&](StackSpec& spec, TrainSpec& train) {
      change(spec, train);
      train.lr *= factor;
    };
    study.add(placements, fmt::format("{}rate x {:.2g}", what, factor), at_rate);
  }
}

void add_study(std::string_view name, const TrainConfig& shared, bool quick, std::vector<Group>& groups) {
  const StudyGroups study{std::string(name), shared, groups};
  const auto nothing = [](StackSpec&, TrainSpec&) {};
  if (name == "base") {
    study.add({"post", "pre", "peri", "a+c", "b-only"}, "", nothing);
  } else if (name == "rates") {
    add_rates(study, three, quick ? std::vector{1.0 / 3.0, 3.0} : rate_factors, "", nothing);
  } else if (name == "rates-warmup") {
    add_rates(study, two, {0.1, 1.0 / 3.0, 1.0, 3.0, 10.0}, "warm-up x 3, ",
              [](StackSpec&, TrainSpec& train) { train.warmup = std::min(1.0, 3.0 * train.warmup); });
  } else if (name == "rates-short") {
    add_rates(study, two, {0.1, 1.0 / 3.0, 1.0, 3.0, 10.0}, "half the length, ", [](StackSpec& spec, TrainSpec& train) {
      spec.input.tokens = std::max(1, spec.input.tokens / 2);
      train.batch *= 2;
    });
  } else if (name == "frozen") {
    study.add({"peri"}, "output gains frozen", [](StackSpec&, TrainSpec& train) { train.frozen = {"norm_b"}; });
  } else if (name == "decay") {
    for (const double decay : {0.0, 0.0033, 0.33}) {
      study.add(two, fmt::format("weight decay {:g}", decay),
                [&](StackSpec&, TrainSpec& train) { train.weight_decay = decay; });
    }
  } else if (name == "init") {
    for (const double over_width : {10.0, 2.0, 1.0, 0.1}) {
      study.add(two, fmt::format("variance {:g}/d", over_width), [&](StackSpec& spec, TrainSpec&) {
        spec.init.scheme = InitScheme::normal;
        spec.init.std = std::sqrt(over_width / spec.model.width);
      });
    }
    study.add(two, "Xavier", [](StackSpec& spec, TrainSpec&) { spec.init.scheme = InitScheme::xavier; });
  } else if (name == "layer-norm") {
    study.add({"peri"}, "LayerNorm", [](StackSpec& spec, TrainSpec&) { spec.model.norm = NormKind::layer; });
  } else if (name == "embedding-norm") {
    study.add(two, "embedding norm", [](StackSpec& spec, TrainSpec&) { spec.model.embedding_norm = true; });
  } else if (name == "olmo") {
    study.add({"peri"}, "QK-norm", [](StackSpec& spec, TrainSpec&) { spec.model.qk_norm = QkNorm::head; });
    study.add({"b-only"}, "QK-norm (OLMo 2)", [](StackSpec& spec, TrainSpec&) { spec.model.qk_norm = QkNorm::full; });
  } else if (name == "sgd") {
    for (const double rate : {0.03, 0.1, 0.3, 1.0}) {
      study.add(three, fmt::format("SGD, rate {:g}", rate), [&](StackSpec&, TrainSpec& train) {
        train.optimizer = OptimizerKind::sgd;
        train.lr = rate;
      });
    }
  } else if (name == "no-warmup") {
    add_rates(study, {"post", "pre", "peri", "a+c", "b-only"}, {1.0 / 3.0, 1.0}, "no warm-up, ",
              [](StackSpec&, TrainSpec& train) { train.warmup = 0.0; });
  }
}

}  // namespace

std::span<const Exhibit> exhibits() { return all_exhibits(); }

std::vector<const Exhibit*> chosen(const std::vector<std::string>& names, bool quick) {
  std::vector<const Exhibit*> found;
  std::vector<std::string> known;
  for (const Exhibit& exhibit : exhibits()) {
    known.emplace_back(exhibit.name);
    const bool wanted = names.empty() ? exhibit.quick || !quick : std::ranges::find(names, exhibit.name) != names.end();
    if (wanted) found.push_back(&exhibit);
  }
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    std::string list;
    for (const std::string& one : known) list += (list.empty() ? "" : ", ") + one;
    throw ConfigError(
        fmt::format("--figure {}: expected one of {}; nearest is {}", shortened(name), list, nearest(name, known)));
  }
  return found;
}

std::vector<Group> groups_of(const std::vector<const Exhibit*>& exhibits, const TrainConfig& shared, bool quick) {
  std::vector<Group> groups;
  std::vector<std::string_view> done;
  for (const Exhibit* exhibit : exhibits) {
    for (const std::string_view study : exhibit->studies) {
      if (std::ranges::find(done, study) != done.end()) continue;
      done.push_back(study);
      add_study(study, shared, quick, groups);
    }
  }
  return groups;
}

void set_proxy(TrainConfig& config, bool quick) {
  const auto unless_given = [&](const char* key, auto& field, auto value) {
    if (!config.was_given(key)) field = value;
  };
  ModelSpec& m = config.base.model;
  const bool shaped =
      config.was_given("model.width") || config.was_given("model.heads") || config.was_given("model.preset");
  if (!config.was_given("model.preset")) unless_given("model.layers", m.layers, 12);
  if (!shaped) {
    m.width = 96;
    m.heads = 6;
    if (!config.was_given("model.kv_heads")) m.kv_heads = m.heads;
    if (!config.was_given("model.head_dim")) m.head_dim = m.width / m.heads;
    if (!config.was_given("model.mlp_width")) m.mlp_width = 4 * m.width;
  }
  unless_given("model.vocab", m.vocab, 256);
  unless_given("input.tokens", config.base.input.tokens, 64);
  if (!config.base.init.embedding_std)
    unless_given("input.second_moment", config.base.input.second_moment, 4e-4);  // the tables' init too is N(0, 0.02²)
  TrainSpec& t = config.train;
  unless_given("train.steps", t.steps, quick ? 240 : 1000);
  unless_given("train.batch", t.batch, quick ? 8 : 16);
  unless_given("train.lr", t.lr, 3e-3);
  unless_given("train.record_every", t.record_every, quick ? 60 : 100);
}

}  // namespace periscope::reproduce
