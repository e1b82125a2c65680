#include "experiments/engine/study/study.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "experiments/engine/training/run_task.h"
#include "experiments/studies/reproduce/reproduce.h"
#include "sim/base/mapped.h"
#include "sim/base/printable.h"

namespace periscope::reproduce {
namespace {

struct ReproduceFlags {
  std::string corpus;
  std::vector<std::string> figure;
  bool quick = false;
  std::string shard;
};
const std::vector<study::Flag<ReproduceFlags>> flags{
    {"figure", &ReproduceFlags::figure,
     fmt::format("A figure or table: {}; may be repeated; default: all",
                 fmt::join(mapped(exhibits(), &Exhibit::name), ", "))},
    {"corpus", &ReproduceFlags::corpus, "File or folder whose bytes are the tokens, or synthetic; sets train.corpus"},
    {"quick", &ReproduceFlags::quick, "Fewer and shorter runs; claims that need other runs are reported as not-run"},
    {"shard", &ReproduceFlags::shard,
     "Only train part K of N of the runs into the cache of --out, as in --shard 3/16; the same command without --shard "
     "then judges the claims"}};

ReproduceConfig load(const study::Request& request, const ReproduceFlags& own) {
  ReproduceConfig config;
  static_cast<training::TrainConfig&>(config) = training::train_config(request, own.corpus);
  config.figures = own.figure;
  config.quick = own.quick;
  if (config.is_set("model.placement"))
    throw ConfigError("model.placement is set: expected this key to be unset, as each figure sets its placements");
  if (config.is_set("model.recipe"))
    throw ConfigError("model.recipe is set: expected this key to be unset, as each figure sets its stacks");
  if (!config.variants.empty()) {
    throw ConfigError("model, init, input: expected one value per key, found a list; each figure sets what it sweeps");
  }
  set_proxy_defaults(config, own.quick);
  if (config.train.lr == 0.0) throw ConfigError("train.lr = 0: expected a positive learning rate");
  if (!config.is_set("run.seeds") && !request.run.contains("seeds")) config.run.seeds = 3;
  const std::vector<const Exhibit*> wanted = select_exhibits(config.figures, config.quick);
  reject_settings_of_studies(wanted, config);
  config.groups = groups_of(wanted, config, config.quick);
  for (const Group& group : config.groups) {
    periscope::validate(group.spec);
    periscope::validate(group.train);
  }
  reject_equal_groups(config.groups);
  return config;
}

study::Job resolve(const study::Request& request) {
  const auto own = study::read_flags(flags, request.flags);
  const auto config = std::make_shared<const ReproduceConfig>(load(request, own));
  const auto shard = own.shard.empty() ? std::nullopt : std::optional(stacks::parse_shard(own.shard));
  const auto corpus = std::make_shared<const Corpus>(training::corpus_of(*config));
  config::Resolved all = training::resolved(*config, *corpus, config::resolved(*config));
  const std::string identity = training::identity_of_runs(*config, all);
  all.printed["reproduce"] = all.hashed["reproduce"] = {{"figures", config->figures}, {"quick", config->quick}};
  const auto runs = tasks_of(*config, shard.value_or(stacks::Shard()));
  if (shard) all.hashed = {{"runs", mapped(runs, training::identity_of)}, {"identity", identity}};
  return {.file = shard ? "" : "reproduce",
          .run_options = config->run,
          .resolved = all,
          .operations = training::training_operations(runs),
          .memory = reproduce_memory(*config, runs.size(), study::threads_of(config->run)),
          .run = [=](stacks::Progress& progress) -> study::Outcome {
            const config::RunOptions& options = config->run;
            if (options.seeds < 3) {
              progress.say(fmt::format("run.seeds = {}: {}\n", options.seeds,
                                       options.seeds < 2
                                           ? "figures only; no claim can be tested with fewer than 2 seeds"
                                           : "claims about spreads (R9) cannot be tested with fewer than 3 seeds"));
            }
            // Figures share runs: their states are in one folder of the cache.
            const cache::Cache* tasks = progress.task_cache();
            training::SavedStates states{.folder = tasks == nullptr ? "" : tasks->folder(), .identity = identity};
            if (!options.out.empty()) states.folder = options.out + "/cache/runs";
            if (shard) {
              if (states.folder.empty()) throw ConfigError("--shard: expected --out, the folder that all parts share");
              states.folder = std::filesystem::path(states.folder).replace_filename("runs").string();
              train_shard(*config, *corpus, states, *shard, progress);
              study::Outcome done{.table = fmt::format("trained part {} in {}\n", own.shard, printable(states.folder))};
              if (options.out.empty()) done.data = dataset::Dataset();  // the cell of a sweep
              return done;
            }
            const ReproduceResult result = reproduce::run(*config, *corpus, states, progress);
            return {.data = dataset_of(*config, result), .table = table(*config, result)};
          }};
}

}  // namespace

std::vector<study::Study> studies() {
  return {{.name = "reproduce",
           .question = "Train the runs of the paper's figures at proxy scale and test its claims",
           .example = "reproduce --quick",
           .example_duration = "8 to 12 minutes on 2 cores; all figures without --quick: about 8 hours",
           .sections = {config::any_section(train_section)},
           .flags = flag_texts(flags),
           .schema = &schema(),
           .skippable = true,
           .without = {"memory"},
           .shared_keys = {"model.", "init.", "input."},
           .parts =
               [](const study::Request& request) {
                 return tasks_of(load(request, study::read_flags(flags, request.flags))).size();
               },
           .resolve = resolve}};
}

}  // namespace periscope::reproduce
