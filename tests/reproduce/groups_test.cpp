#include "experiments/studies/reproduce/groups.h"
#include "experiments/studies/studies.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "sim/base/error.h"
#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

using reproduce::Group;
using reproduce::groups_of;
using reproduce::select_exhibits;

training::TrainConfig proxy(bool quick) {
  training::TrainConfig config = training::train_config({.known = sections()}, "");
  reproduce::set_proxy_defaults(config, quick);
  return config;
}

TEST_CASE("every exhibit has groups, and group names are unique over the whole study") {
  const training::TrainConfig config = proxy(false);
  for (const auto& exhibit : reproduce::exhibits()) {
    INFO(std::string(exhibit.name));
    CHECK_FALSE(groups_of({&exhibit}, config, false).empty());
  }
  std::set<std::string> names;
  for (const Group& group : groups_of(select_exhibits({}, false), config, false)) {
    INFO(group.name);
    CHECK(names.insert(group.name).second);
  }
}

TEST_CASE("quick runs a subset of exhibits with fewer runs") {
  std::set<std::string_view> names;
  for (const auto* exhibit : select_exhibits({}, true)) names.insert(exhibit->name);
  for (const char* needed : {"1", "4", "5", "7", "9", "11", "3", "table5"}) CHECK(names.contains(needed));
  CHECK_FALSE(names.contains("10"));
  CHECK(groups_of(select_exhibits({}, true), proxy(true), true).size() <
        groups_of(select_exhibits({}, false), proxy(false), false).size());
}

TEST_CASE("a group changes the setting that its name states") {
  const training::TrainConfig config = proxy(false);
  const auto find = [groups = groups_of(select_exhibits({}, false), config, false)](const std::string& name) {
    for (const Group& group : groups)
      if (group.name == name) return group;
    FAIL(name);
    return Group{};
  };
  CHECK(find("pre").train.lr == approx(3e-3));
  CHECK(find("pre, rate x 3").train.lr == approx(9e-3));
  CHECK(find("peri, variance 10/d").spec.init.std == approx(std::sqrt(10.0 / 96.0)));
  CHECK(find("b-only, QK-norm (OLMo 2)").spec.model.qk_norm == QkNorm::full);
  CHECK(find("post, SGD, rate 0.3").train.optimizer == OptimizerKind::sgd);
  CHECK(find("peri, warm-up x 3, rate x 1").train.warmup == approx(3.0 * config.train.warmup));
  CHECK(find("peri, warm-up x 3, rate x 1").train.lr == approx(config.train.lr));
  const Group half = find("pre, half the length, rate x 1");
  CHECK(half.spec.input.tokens * half.train.batch == config.base.input.tokens * config.train.batch);
}

using Change = void (*)(training::TrainConfig&);

/// Keys, each with an edit of the shared setting.
const std::vector<std::pair<std::string, Change>>& changes() {
  static const std::vector<std::pair<std::string, Change>> all{
      {"model.norm", [](training::TrainConfig& c) { c.base.model.norm = NormKind::layer; }},
      {"model.embedding_norm", [](training::TrainConfig& c) { c.base.model.embedding_norm = true; }},
      {"model.qk_norm", [](training::TrainConfig& c) { c.base.model.qk_norm = QkNorm::full; }},
      {"model.gamma", [](training::TrainConfig& c) { c.base.model.gamma = 0.7; }},
      {"init.scheme", [](training::TrainConfig& c) { c.base.init.scheme = InitScheme::he; }},
      {"init.std", [](training::TrainConfig& c) { c.base.init.std = 0.5; }},
      {"input.tokens", [](training::TrainConfig& c) { c.base.input.tokens = 40; }},
      {"train.batch", [](training::TrainConfig& c) { c.train.batch = 6; }},
      {"train.optimizer", [](training::TrainConfig& c) { c.train.optimizer = OptimizerKind::sgd; }},
      {"train.lr", [](training::TrainConfig& c) { c.train.lr = 0.7; }},
      {"train.warmup", [](training::TrainConfig& c) { c.train.warmup = 0.2; }},
      {"train.weight_decay", [](training::TrainConfig& c) { c.train.weight_decay = 0.7; }},
      {"train.momentum", [](training::TrainConfig& c) { c.train.momentum = 0.7; }},
      {"train.clip", [](training::TrainConfig& c) { c.train.clip = 0.7; }},
      {"train.frozen", [](training::TrainConfig& c) { c.train.frozen = {"q"}; }}};
  return all;
}

nlohmann::ordered_json value_of(const Group& group, const std::string& key) {
  nlohmann::ordered_json json = config::resolved_json(group.spec);
  json["train"] = config::section_json(train_section, group.train);
  const std::size_t dot = key.find('.');
  return json.at(key.substr(0, dot)).at(key.substr(dot + 1));
}

TEST_CASE("a study lists every key whose shared value its groups override") {
  std::set<std::string_view> studies;
  for (const auto& exhibit : reproduce::exhibits()) studies.insert(exhibit.studies.begin(), exhibit.studies.end());
  CHECK(studies.size() == 12);
  for (const std::string_view study : studies) {
    const reproduce::Exhibit exhibit{.name = "one", .studies = {study}, .quick = false};
    std::set<std::string> overridden;
    for (const Group& group : groups_of({&exhibit}, proxy(false), false))
      overridden.insert(group.set.begin(), group.set.end());
    for (const auto& [changed_key, change] : changes()) {
      const std::string& key = changed_key;
      INFO(study, " ", key);
      const training::TrainConfig shared = proxy(false);
      training::TrainConfig changed = shared;
      change(changed);
      const std::vector<Group> groups = groups_of({&exhibit}, shared, false);
      const std::vector<Group> others = groups_of({&exhibit}, changed, false);
      bool follows = true;
      for (std::size_t g = 0; g < groups.size(); ++g) {
        follows = follows && value_of(groups[g], key) != value_of(others[g], key);
      }
      CHECK(follows == !overridden.contains(key));
    }
  }
}

/// Returns the message with which `check` rejects the changed setting, or "".
template <class Check>
std::string message_of(Change change, const Check& check) {
  training::TrainConfig config = proxy(false);
  change(config);
  try {
    check(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a given key that an exhibit sets itself is rejected by name") {
  const auto message_for = [](const std::string& figure, const std::string& key, Change change) {
    return message_of(change, [&](training::TrainConfig& config) {
      config.given.insert(key);
      reproduce::reject_settings_of_studies(select_exhibits({figure}, false), config);
    });
  };
  const auto find = [](const std::string& key) {
    return std::ranges::find(changes(), key, &std::pair<std::string, Change>::first)->second;
  };
  using Setting = std::pair<std::string, std::string>;  // exhibit, key
  for (const Setting& row :
       {Setting{"19", "model.norm"}, Setting{"20", "model.embedding_norm"}, Setting{"8", "train.frozen"},
        Setting{"10", "train.weight_decay"}, Setting{"10", "init.scheme"}, Setting{"10", "init.std"},
        Setting{"32", "model.qk_norm"}, Setting{"35", "train.optimizer"}, Setting{"35", "train.lr"},
        Setting{"warmup", "train.warmup"}}) {
    INFO(row.first, " ", row.second);
    CHECK(message_for(row.first, row.second, find(row.second)).starts_with(row.second));
    CHECK(message_for("1", row.second, find(row.second)).empty());
  }
  CHECK(message_for("3", "train.lr", find("train.lr")).empty());  // groups use multiples of the given rate
}

TEST_CASE("groups whose runs would be identical are rejected") {
  const auto message_for = [](const std::vector<std::string>& figures, Change change) {
    return message_of(change, [&](const training::TrainConfig& config) {
      reproduce::reject_equal_groups(groups_of(select_exhibits(figures, false), config, false));
    });
  };
  CHECK(message_for({}, [](training::TrainConfig&) {}).empty());
  const auto check_rejected = [&](const std::vector<std::string>& figures, const std::string& first,
                                  const std::string& second, Change change) {
    const std::string words = message_for(figures, change);
    CAPTURE(words);
    CHECK(words.find("\"" + first + "\" and \"" + second + "\"") != std::string::npos);
  };
  check_rejected({"19"}, "peri", "peri, LayerNorm",
                 [](training::TrainConfig& c) { c.base.model.norm = NormKind::layer; });
  check_rejected({"20"}, "pre", "pre, embedding norm",
                 [](training::TrainConfig& c) { c.base.model.embedding_norm = true; });
  check_rejected({"8"}, "peri", "peri, output gains frozen",
                 [](training::TrainConfig& c) { c.train.frozen = {"norm_b"}; });
  check_rejected({"10"}, "pre", "pre, weight decay 0.33",
                 [](training::TrainConfig& c) { c.train.weight_decay = 0.33; });
  check_rejected({"10"}, "pre", "pre, variance 1/d",
                 [](training::TrainConfig& c) { c.base.init.std = std::sqrt(1.0 / 96.0); });
  check_rejected({"10"}, "pre", "pre, Xavier",
                 [](training::TrainConfig& c) { c.base.init.scheme = InitScheme::xavier; });
  check_rejected({"32"}, "peri", "peri, QK-norm",
                 [](training::TrainConfig& c) { c.base.model.qk_norm = QkNorm::head; });
  check_rejected({"warmup"}, "post", "post, no warm-up, rate x 1",
                 [](training::TrainConfig& c) { c.train.warmup = 0.0; });
  check_rejected({"3"}, "post", "post, rate x 0.1", [](training::TrainConfig& c) { c.train.lr = 0.0; });
  check_rejected({"3", "16"}, "pre, rate x 0.1", "pre, warm-up x 3, rate x 0.1",
                 [](training::TrainConfig& c) { c.train.warmup = 1.0; });
  // A warm-up of 10 % of twelve steps is one step, the same as no warm-up.
  check_rejected({"warmup"}, "post", "post, no warm-up, rate x 1",
                 [](training::TrainConfig& c) { c.train.steps = 12; });
  CHECK(message_for({"warmup"}, [](training::TrainConfig& c) { c.train.steps = 20; }).empty());
}

}  // namespace
}  // namespace periscope::testing
