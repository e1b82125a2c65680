#include "experiments/probe/commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>

#include "experiments/common/atomic_file.h"
#include "experiments/common/command.h"
#include "experiments/common/progress.h"
#include "experiments/common/provenance.h"
#include "experiments/common/publish.h"
#include "experiments/probe/generate.h"
#include "experiments/probe/probe.h"
#include "experiments/probe/probe_dump.h"
#include "sim/backends.h"
#include "sim/checkpoint/checkpoint_weights.h"

namespace periscope {
namespace {

struct CheckpointOptions {
  std::string folder;
  TokenSource source;

  void add_to(CLI::App& command) {
    command.add_option("checkpoint", folder, "Folder with config.json and safetensors files")->required();
    command.add_option("--tokens", source.tokens, "Token ids: 5,9,2, or a file of them");
    command.add_option("--text", source.text, "Text file, encoded by the tokenizer");
    command.add_option("--tokenizer", source.tokenizer,
                       "A tokenizer file of llama2.c, or \"bytes\"; default: tok*.bin in the folder, or bytes for a "
                       "vocabulary of 256");
    command.add_option("--max-tokens", source.max_tokens, "Read only the first so many tokens")
        ->check(CLI::PositiveNumber);
  }
};

struct ProbeOptions : CheckpointOptions {
  bool backward = false;
  bool no_theory = false;
  bool fail_on_divergence = false;
  int top = 10;
  std::string dump;
};

/// Steps once per sublayer, forward and back.
class ProgressRecorder final : public SignalRecorder {
 public:
  explicit ProgressRecorder(Progress& progress) : progress_(progress) {}
  void on_signal(const Emission& at, const Tensor& /*x*/) override {
    if (at.sublayer < 0) return;
    if (at.pass == Pass::forward && at.signal == Signal::x_out) progress_.step(fmt::format("sublayer {}", at.sublayer));
    if (at.pass == Pass::backward && at.signal == Signal::x_in) {
      progress_.step(fmt::format("back, sublayer {}", at.sublayer));
    }
  }

 private:
  Progress& progress_;
};

/// The configuration for a checkpoint's model: computed in f64 unless a dtype was asked for. Refuses keys that the
/// checkpoint answers.
Config load_for_checkpoint(const CommonOptions& options) {
  Config config = options.load();
  for (const std::string& key : config.given) {
    if (key.starts_with("init.") || key.starts_with("run.") || key.starts_with("theory.") ||
        key.starts_with("agreement.") || key == "input.second_moment") {
      continue;
    }
    throw ConfigError(fmt::format(
        "{}: not for a checkpoint; expected keys of init, run, theory and agreement, or input.second_moment", key));
  }
  config.run.dtype = config.run.dtype_choice.value_or(DType::f64);
  return config;
}

std::string name_of(const Checkpoint& checkpoint) {
  return std::filesystem::path(checkpoint.folder() + "/.").lexically_normal().parent_path().filename().string();
}

ModelReading measure(const StackContext& context, const Checkpoint& checkpoint, const TokenInput& input,
                     const ProbeOptions& own, bool quiet) {
  Progress progress("probe", context.model.sublayers() * (own.backward ? 2 : 1), quiet);
  ProgressRecorder steps(progress);
  const ModelPass pass{.ids = input.ids,
                       .labels = input.labels,
                       .backward = own.backward,
                       .top = own.top,
                       .hooks = {.recorders = {&steps}}};
  if (own.dump.empty()) return read_model(context, pass);
  ModelReading reading;
  write_atomically(own.dump + "/activations.safetensors",
                   [&](const std::string& path) { reading = dump_model(context, checkpoint, pass, path); });
  return reading;
}

nlohmann::ordered_json provenance_of(const Config& config, const ProbeResult& result, const std::string& folder) {
  Config resolved = config;
  resolved.base = result.at_init;
  resolved.placements = {result.at_init.model.placement};
  resolved.inputs = {result.at_init.input.kind};
  resolved.final_norm = result.at_init.model.final_norm;
  resolved.run.backward = result.backward;
  nlohmann::ordered_json json = provenance(resolved);
  json["checkpoint"] = folder;
  return json;
}

std::vector<std::string> notes_of(const Checkpoint& checkpoint, const TokenInput& input) {
  std::vector<std::string> notes = input.notes;
  for (const auto* warnings : {&checkpoint.warnings(), &checkpoint.files().warnings()}) {
    notes.insert(notes.end(), warnings->begin(), warnings->end());
  }
  if (checkpoint.tied()) {
    notes.emplace_back("embedding and head are one matrix; theory at initialisation takes them for independent");
  }
  const auto positions = checkpoint.config().find("max_position_embeddings");
  if (positions != checkpoint.config().end() && positions->is_number_integer() &&
      positions->get<std::int64_t>() < static_cast<std::int64_t>(input.ids.size())) {
    notes.push_back(fmt::format("{} tokens, more than max_position_embeddings = {}", input.ids.size(),
                                positions->get<std::int64_t>()));
  }
  return notes;
}

ExitCode run_probe(const CommonOptions& options, const ProbeOptions& own) {
  Config config = load_for_checkpoint(options);
  const Checkpoint checkpoint(own.folder);
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  const CheckpointWeights weights(*backend, checkpoint, config.run.dtype);
  const StackContext context{.ops = *backend, .model = checkpoint.model(), .weights = weights};
  TokenInput input = read_token_input(own.source, checkpoint.model(), own.folder);
  if (own.backward && !input.has_labels()) {
    throw ConfigError(fmt::format("--backward: nothing to go back from; {}", input.notes.back()));
  }
  ModelReading measured = measure(context, checkpoint, input, own, options.quiet);
  const StackSpec initial = initial_stack(checkpoint.model(), config, static_cast<int>(input.ids.size()));
  theory::Prediction prediction{.profile = {}, .refusal = "not asked for (--no-theory)", .finite_width = {}};
  if (!own.no_theory) prediction = predict_initial(initial, input, config, own.backward);
  ProbeResult result{.model = name_of(checkpoint),
                     .family = std::string(checkpoint.family().name),
                     .at_init = initial,
                     .dtype = config.run.dtype,
                     .backward = own.backward,
                     .input = std::move(input),
                     .measured = std::move(measured),
                     .agreement = config.agreement,
                     .initial = std::move(prediction),
                     .notes = {}};
  result.notes = notes_of(checkpoint, result.input);
  const nlohmann::ordered_json origin = provenance_of(config, result, own.folder);
  publish("probe", options, config.run.out, probe_columns(result, origin), probe_table(result));
  if (violates_growth_identity(result.measured)) return ExitCode::check_failed;
  return own.fail_on_divergence && diverged(result.measured) ? ExitCode::diverged : ExitCode::ok;
}

ExitCode run_generate(const CommonOptions& options, const CheckpointOptions& own, int count) {
  const Config config = load_for_checkpoint(options);
  const Checkpoint checkpoint(own.folder);
  const ModelSpec& model = checkpoint.model();
  if (!model.causal || !model.unembedding) {
    throw ConfigError(fmt::format("generate {}: expected a causal model with a head", own.folder));
  }
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  const CheckpointWeights weights(*backend, checkpoint, config.run.dtype);
  const StackContext context{.ops = *backend, .model = model, .weights = weights};
  const TokenInput input = read_token_input(own.source, model, own.folder);
  const int positions = model.embedding.positions - model.embedding.position_offset;
  const int needed = static_cast<int>(input.ids.size()) + count - 1;  // the last token is not read
  if (model.embedding.positions > 0 && needed > positions) {
    throw ConfigError(
        fmt::format("--count {}: {} tokens would be read, the model has positions for {}", count, needed, positions));
  }
  Progress progress("generate", count, options.quiet);
  const std::vector<int> ids =
      generate_greedily(context, input.ids, count, [&](int id) { progress.step(fmt::format("id {}", id)); });
  const std::string text = input.tokenizer == nullptr ? "" : input.tokenizer->decode(ids);
  if (options.json) {
    nlohmann::ordered_json json{{"ids", ids}, {"prompt_tokens", input.ids.size()}};
    if (input.tokenizer != nullptr) json["text"] = text;
    json["tokenizer"] = input.tokenizer_name;
    print_json(json);
  }
  if (!options.quiet) fmt::print(stderr, "{}\n{}\n", fmt::join(ids, " "), text);
  return ExitCode::ok;
}

}  // namespace

void add_probe_commands(CLI::App& app, int& code) {
  const auto probe = std::make_shared<ProbeOptions>();
  CLI::App* command =
      add_command(app, code, "probe", "Run a checkpoint on tokens and measure all that theory speaks of",
                  [=](const CommonOptions& options) { return run_probe(options, *probe); });
  probe->add_to(*command);
  command->add_option("--labels", probe->source.labels,
                      "Ids to predict, one per token, -1 for none; default: the next token");
  command->add_flag("--backward", probe->backward, "Gradients of the loss too");
  command->add_option("--dump", probe->dump, "Folder for activations.safetensors: activations and gradients in f64");
  command->add_option("--top", probe->top, "Largest entries of the stream to report per depth")
      ->check(CLI::PositiveNumber);
  command->add_flag("--no-theory", probe->no_theory, "Leave out theory at initialisation");
  command->add_flag("--fail-on-divergence", probe->fail_on_divergence, "Exit 5 if the stream is not finite");

  const auto source = std::make_shared<CheckpointOptions>();
  const auto count = std::make_shared<int>(64);
  CLI::App* generate =
      add_command(app, code, "generate", "Continue tokens with a checkpoint, always by the likeliest token",
                  [=](const CommonOptions& options) { return run_generate(options, *source, *count); });
  source->add_to(*generate);
  generate->add_option("--count", *count, "Tokens to add")->check(CLI::PositiveNumber);
}

}  // namespace periscope
