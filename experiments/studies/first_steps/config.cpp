#include "experiments/studies/first_steps/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "experiments/engine/settings/toml_reader.h"
#include "sim/base/error.h"

namespace periscope::first_steps {
namespace {

// clang-format off
constexpr Key<FirstStepsConfig> keys[] = {
    {.name = "neurons", .field = &FirstStepsConfig::neurons, .range = from_to(8, 1 << 20), .meaning = "rows per matrix inside a module (heads, or hidden channels of an MLP) that a replicate of the prediction (T28) samples; smaller matrices are sampled completely"},
    {.name = "replicates", .field = &FirstStepsConfig::replicates, .range = from_to(2, 1 << 20), .meaning = "number of independent replicates of the prediction, whose spread gives its standard errors; each uses the batches of one seed, so at least run.seeds are needed (the default is raised to this) unless first_steps.predict_only is set"},
    {.name = "fault", .field = word_field<&FirstStepsConfig::fault, theory::step_fault_names>(), .meaning = "deliberate error in the prediction: no-noise, sign-constant, one-gate, no-token-mean"},
    {.name = "predict_only", .field = &FirstStepsConfig::predict_only, .meaning = "predict only: no training, no verdict"},
    {.name = "change_limit", .field = &FirstStepsConfig::change_limit, .range = between(0, 1e3), .meaning = "limit on the detectable error of the stream's second moment, above which a verdict is inconclusive (T22); relative to the step's largest predicted change over depth"},
    {.name = "cosine_limit", .field = &FirstStepsConfig::cosine_limit, .range = between(0, 1e3), .meaning = "absolute limit on the detectable error of the cosine between branch and stream"},
    {.name = "update_limit", .field = &FirstStepsConfig::update_limit, .range = between(0, 1e3), .meaning = "relative limit on the detectable error of a matrix's update, the mean square of an entry of (W - W_0) h"},
    {.name = "loss_limit", .field = &FirstStepsConfig::loss_limit, .range = between(0, 1e3), .meaning = "limit on the detectable error of the loss on the held-out windows, relative to its predicted change"},
};
// clang-format on

using Default = std::pair<std::string_view, std::string_view>;
constexpr Default defaults[] = {
    {"input.tokens", "32"}, {"train.batch", "4"}, {"train.steps", "5"}, {"train.lr", "4e-5"}};
/// Sizes of the stack if [model] sets only placements.
constexpr Default default_sizes[] = {{"model.layers", "4"}, {"model.width", "384"}, {"model.heads", "6"}};

/// Adds defaults for keys that are not set. If train.lr is a list, returns it and sets train.lr to its first value.
std::vector<double> set_defaults(study::Request& request) {
  const config::Tree tree = request.tree();
  for (const auto& [key, value] : defaults) {
    if (tree.find(std::string(key)) == nullptr) request.entries.push_back(fmt::format("{}={}", key, value));
  }
  const config::Json* model = tree.find("model");
  if (model == nullptr || model->size() == (model->contains("placement") ? 1 : 0)) {
    for (const auto& [key, value] : default_sizes) request.entries.push_back(fmt::format("{}={}", key, value));
  }
  if (const config::Json* rate = tree.find("train.lr"); rate == nullptr || !rate->is_array()) return {};
  std::vector<double> rates;
  config::TomlReader(tree).table("train").read("lr", rates);
  std::vector<std::string> words;
  for (const double rate : rates) words.push_back(fmt::format("{}", rate));
  config::require_different("train.lr", words);
  request.settings.push_back("train.lr=" + words.front());
  return rates;
}

/// Returns the stacks at every rate; the rate is the outer index.
std::vector<StackSpec> at_rates(const std::vector<StackSpec>& stacks, const std::vector<double>& rates) {
  std::vector<StackSpec> all;
  for (const double rate : rates) {
    for (const StackSpec& stack : stacks) {
      all.push_back(stack);
      all.back().label = fmt::format("{}, lr {}", config::placement_label(stack), rate);
    }
  }
  return all;
}

}  // namespace

const Section<FirstStepsConfig> first_steps_section{"first_steps", keys};

TrainSpec FirstStepsConfig::train_of(std::size_t stack) const {
  TrainSpec own = train;
  if (!rates.empty()) own.lr = rates[stack / (stacks().size() / rates.size())];
  return own;
}

config::Resolved resolved(const FirstStepsConfig& config, const Corpus& corpus) {
  config::Resolved all = training::resolved(config, corpus, config::resolved(config).add(first_steps_section, config));
  if (!config.rates.empty()) all.printed["train"]["lr"] = all.hashed["train"]["lr"] = config.rates;
  return all;
}

FirstStepsConfig load(study::Request request, const std::string& corpus) {
  const std::vector<double> rates = set_defaults(request);
  FirstStepsConfig config;
  static_cast<training::TrainConfig&>(config) = training::train_config(request, corpus);
  if (config.theory.fault != theory::Fault::none) {
    throw ConfigError(
        "theory.fault: expected this key to be unset, as it changes the theory at initialisation (T2-T11); set "
        "first_steps.fault instead");
  }
  for (StackSpec& overridden : config.overridden) overridden.input.kind = InputKind::tokens;  // as in training
  for (const StackSpec& overridden : config.overridden) {
    if (overridden.model.vocab >= config.base.model.vocab) continue;
    throw ConfigError(
        fmt::format("--theory-set model.vocab = {}: expected at least the measured model.vocab = {}, as the batches "
                    "contain its token ids",
                    overridden.model.vocab, config.base.model.vocab));
  }
  if (!config.is_set("run.seeds") && !request.run.contains("seeds")) config.run.seeds = config::RunOptions().seeds;
  config::read_section(config::TomlReader(config.tree), first_steps_section, config);
  if (!config.train.frozen.empty()) {
    throw ConfigError("train.frozen: expected an empty list, as first steps are predicted for training all weights");
  }
  if (config.is_set("train.record_every") && config.train.record_every != 1) {
    throw ConfigError(
        fmt::format("train.record_every = {}: expected 1, as every step is compared", config.train.record_every));
  }
  config.train.record_every = 1;
  const int seeds = config.predict_only ? 0 : config.run.seeds;
  if (!config.is_set("first_steps.replicates")) config.replicates = std::max(config.replicates, seeds);
  if (config.replicates < seeds) {
    throw ConfigError(
        fmt::format("first_steps.replicates = {}: expected at least run.seeds = {}, as a replicate uses the batches of "
                    "one seed; raise it, or lower run.seeds",
                    config.replicates, seeds));
  }
  if (rates.size() > 1) {
    config.variants = at_rates(config.stacks(), rates);
    if (!config.overridden.empty()) config.overridden = at_rates(config.overridden, rates);
    config.rates = rates;
    for (std::size_t i = 0; i < config.variants.size(); ++i) require_ranges(train_section, config.train_of(i));
  }
  return config;
}

config::PlantedFault fault_of(const FirstStepsConfig& config) {
  if (config.fault == theory::StepFault::none) return {};
  return {.key = "first_steps.fault",
          .name = theory::step_fault_names[static_cast<std::size_t>(config.fault)],
          .meaning = theory::meaning_of(config.fault)};
}

}  // namespace periscope::first_steps
