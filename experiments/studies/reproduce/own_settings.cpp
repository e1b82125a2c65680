#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "experiments/studies/reproduce/groups.h"
#include "sim/base/error.h"

namespace periscope::reproduce {
namespace {

using Json = nlohmann::ordered_json;

/// The keys by which a study's groups differ from the shared setting.
struct StudyKeys {
  std::string_view study;
  std::vector<std::string_view> set;     ///< to values of its own, whatever the shared one is
  std::vector<std::string_view> scaled;  ///< to a multiple of the shared value
};

const StudyKeys& keys_of(std::string_view study) {
  static const std::vector<StudyKeys> all{{"base", {}, {}},
                                          {"rates", {}, {"train.lr"}},
                                          {"rates-warmup", {}, {"train.warmup", "train.lr"}},
                                          {"rates-short", {}, {"input.tokens", "train.batch", "train.lr"}},
                                          {"frozen", {"train.frozen"}, {}},
                                          {"decay", {"train.weight_decay"}, {}},
                                          {"init", {"init.scheme", "init.std"}, {}},
                                          {"layer-norm", {"model.norm"}, {}},
                                          {"embedding-norm", {"model.embedding_norm"}, {}},
                                          {"olmo", {"model.qk_norm"}, {}},
                                          {"sgd", {"train.optimizer", "train.lr"}, {}},
                                          {"no-warmup", {"train.warmup"}, {"train.lr"}}};
  return *std::ranges::find(all, study, &StudyKeys::study);
}

Json resolved_of(const Group& group) {
  Json json = config::resolved_json(group.spec);
  json["train"] = config::section_json(train_section, group.train);
  return json;
}

/// "model.norm = "layer"", of the group's own settings.
std::string with_value(const Group& group, std::string_view key) {
  const std::size_t dot = key.find('.');
  const Json value = resolved_of(group)[std::string(key.substr(0, dot))][std::string(key.substr(dot + 1))];
  return fmt::format("{} = {}", key, config::toml_text(value));
}

/// All that a group's runs depend on. A warm-up's share counts as the rate of the first step, lr over the steps that it
/// comes to, which is all that it does: in few steps different shares are the same.
std::string identity_of(const Group& group) {
  Json json = resolved_of(group);
  json["train"]["warmup"] = learning_rate(group.train, 1);
  return json.dump();
}

}  // namespace

std::vector<std::string_view> keys_set_by(std::string_view study) { return keys_of(study).set; }

void refuse_settings_of_studies(const std::vector<const Exhibit*>& exhibits, const training::TrainConfig& shared) {
  const Group given{.name = {}, .study = "base", .spec = shared.stacks().front(), .train = shared.train};
  for (const Exhibit* exhibit : exhibits) {
    for (const std::string_view study : exhibit->studies) {
      for (const std::string_view key : keys_of(study).set) {
        if (!shared.was_given(std::string(key))) continue;
        throw ConfigError(fmt::format(
            "{} is given: expected none for figure {}, whose study {} sets it itself; --figure chooses other figures",
            with_value(given, key), exhibit->name, study));
      }
    }
  }
}

void refuse_equal_groups(const std::vector<Group>& groups) {
  std::map<std::string, const Group*> before;
  for (const Group& group : groups) {
    const auto [same, is_new] = before.emplace(identity_of(group), &group);
    if (is_new) continue;
    const StudyKeys& keys = keys_of(group.study);
    std::vector<std::string> found;
    for (const auto* list : {&keys.set, &keys.scaled}) {
      for (const std::string_view key : *list) {
        found.push_back(with_value(group, key));
        if (key == "train.warmup") found.back() += fmt::format(" of train.steps = {}", group.train.steps);
      }
    }
    throw ConfigError(
        fmt::format("{}: the groups \"{}\" and \"{}\" would be the same runs; expected settings in which they differ, "
                    "or other figures",
                    fmt::join(found, ", "), same->second->name, group.name));
  }
}

}  // namespace periscope::reproduce
