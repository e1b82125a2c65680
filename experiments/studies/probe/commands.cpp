#include "experiments/app/commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>

#include "experiments/app/command.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/whole_number.h"
#include "experiments/core/config/json_text.h"
#include "experiments/core/stacks/fits.h"
#include "experiments/studies/probe/generate.h"
#include "experiments/studies/probe/probe.h"
#include "sim/backends.h"
#include "sim/checkpoint/checkpoint_weights.h"
#include "sim/files/output_file.h"
#include "sim/spec/printable.h"

namespace periscope::probe {
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
        ->check(positive_up_to());
  }
};

struct ProbeOptions : CheckpointOptions {
  bool backward = false;
  bool no_theory = false;
  bool fail_on_divergence = false;
  int top = 10;
  int draws = 16;
  std::string dump;
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

ExitCode publish_reading(const CommonOptions& options, const Config& config, const ProbeResult& result,
                         bool fail_on_divergence) {
  const ExitCode else_code = fail_on_divergence && !not_finite(result).empty() ? ExitCode::diverged : ExitCode::ok;
  return publish("probe", options, config.run.out, columns(result, result.provenance), table(result),
                 violates_growth_identity(result.measured) ? ExitCode::check_failed : else_code);
}

ExitCode run_probe(const CommonOptions& options, const ProbeOptions& own) {
  ProbeConfig config;
  static_cast<Config&>(config) = load_for_checkpoint(options);
  config.run.backward = own.backward;
  config.checkpoint = own.folder;
  config.source = own.source;
  config.with_theory = !own.no_theory;
  config.top = own.top;
  config.draws = own.draws;
  config.dump = own.dump;
  config.force = options.force;
  return run_whole(
      options, "probe", config.run.out, [&](Progress& progress) { return run(config, progress); },
      [&](const ProbeResult& result) { return publish_reading(options, config, result, own.fail_on_divergence); });
}

/// Every token reads all before it, so their number is bounded where no table of positions does it.
void require_room(const ModelSpec& model, std::size_t prompt, int count) {
  const bool learned = model.embedding.positions > 0;
  const std::int64_t room = learned ? model.embedding.positions - model.embedding.position_offset : most_tokens;
  const std::int64_t read = static_cast<std::int64_t>(prompt) + count - 1;  // the last token is not read
  if (read <= room) return;
  throw ConfigError(fmt::format("--count {}: {} tokens would be read, {} {}", count, read,
                                learned ? "the model has positions for" : "expected at most", room));
}

/// Bytes of converted weights that stay in memory from token to token: all of them, as far as --memory goes, or else
/// half of what there is.
double kept_weights(const Checkpoint& checkpoint, const RunOptions& run, int threads) {
  const double all = static_cast<double>(checkpoint.files().counts().numbers * size_of(run.dtype));
  return std::min(all, run.memory > 0.0 ? run.memory : available_bytes(threads) / 2.0);
}

/// The pass over the prompt, or over one token; all tokens together are as many operations as one pass over them.
Need generate_need(const ModelSpec& model, const RunOptions& run, int prompt, int longest, double kept, int threads) {
  const std::string_view key = "--count or --max-tokens";
  Need need = pass_need(model, prompt, run.dtype, false, threads);
  need.operations = pass_need(model, longest, run.dtype, false, threads).operations;
  need.add(2.0 * model.layers * longest * model.key_width() * static_cast<double>(size_of(run.dtype)), key);
  need.key = key;
  need.add(kept, "--memory");
  return need;
}

ExitCode run_generate(const CommonOptions& options, const CheckpointOptions& own, int count) {
  const Config config = load_for_checkpoint(options);
  const std::string file = config.run.out.empty() ? "" : config.run.out + "/generate.json";
  if (!file.empty()) const OutputFile trial(file);
  const Checkpoint checkpoint(own.folder);
  const ModelSpec& model = checkpoint.model();
  if (!model.causal || !model.unembedding) {
    throw ConfigError(fmt::format("generate {}: expected a causal model with a head", own.folder));
  }
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  const int threads = omp_get_max_threads();
  const double kept = count > 1 ? kept_weights(checkpoint, config.run, threads) : 0.0;  // a single pass reads all once
  const CheckpointWeights weights(*backend, checkpoint, config.run.dtype, static_cast<std::size_t>(kept));
  const StackContext context{.ops = *backend, .model = model, .weights = weights};
  const TokenInput input = read_token_input(own.source, model, own.folder);
  require_room(model, input.ids.size(), count);
  const int prompt = static_cast<int>(input.ids.size());
  const Need need =
      generate_need(model, config.run, prompt, prompt + count - 1, kept, threads);  // the last is not read
  std::vector<int> ids = input.ids;
  const bool shown = !options.json && input.tokenizer != nullptr;
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  GrowingText text(terminal);
  const auto generate = [&] {
    TerminalProgress progress(options.quiet || (shown && terminal));  // which would be drawn into the text
    if (shown) text.show(input.tokenizer->decode(ids));
    progress.begin("generate", count);
    (void)generate_greedily(context, input.ids, count, [&](int id) {
      ids.push_back(id);
      if (shown) text.show(input.tokenizer->decode(ids));
      progress.step(fmt::format("id {}", id));
      progress.throw_if_stop_requested();
    });
  };
  bool stopped = false;
  try {
    stopped = until_stopped([&] { within_memory(need, options.force, options.quiet, generate); });
  } catch (...) {
    text.end();  // so that the message does not follow it on its line
    throw;
  }
  text.end();
  nlohmann::ordered_json json{{"ids", ids}, {"prompt_tokens", input.ids.size()}};
  if (input.tokenizer != nullptr) json["text"] = input.tokenizer->decode(ids);
  json["tokenizer"] = input.tokenizer_name;
  if (!stopped && !file.empty()) {
    write_file(file, json_text(json, 1) + "\n");
    if (!options.quiet) print_message(fmt::format("wrote {}\n", printable(file)));
  }
  const std::string all = fmt::format("{}\n", fmt::join(ids, " "));
  if (shown || options.json) {
    if (!options.quiet) print_message(all);
  } else {
    print_result(all);
  }
  if (stopped) throw Stopped();
  if (options.json) print_json(json);
  return ExitCode::ok;
}

}  // namespace

void add_commands(CLI::App& app, int& code) {
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
      ->check(positive_up_to());
  command->add_flag("--no-theory", probe->no_theory,
                    "Leave out theory at initialisation and at the weights' own sizes, and models of these sizes");
  command
      ->add_option("--draws", probe->draws,
                   "Random models of each law that keeps something of the weights' sizes, for the errors of what is "
                   "left over")
      ->check(whole_number(0, 1 << 20));
  command->add_flag("--fail-on-divergence", probe->fail_on_divergence,
                    "Exit 5 if the mean square of a signal or a gradient, or the loss, is not finite");

  const auto source = std::make_shared<CheckpointOptions>();
  const auto count = std::make_shared<int>(64);
  CLI::App* generate =
      add_command(app, code, "generate", "Continue tokens with a checkpoint, always by the likeliest token",
                  [=](const CommonOptions& options) { return run_generate(options, *source, *count); });
  source->add_to(*generate);
  generate->add_option("--count", *count, "Tokens to add")->check(positive_up_to());
}

}  // namespace periscope::probe
