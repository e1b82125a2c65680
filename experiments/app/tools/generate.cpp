#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "experiments/app/command.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/terminal_progress.h"
#include "experiments/app/tools/tools.h"
#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/study/checkpoint_flags.h"
#include "sim/backends.h"
#include "sim/base/printable.h"
#include "sim/checkpoint/checkpoint_weights.h"
#include "sim/files/output_file.h"
#include "sim/model/key_value_cache.h"

namespace periscope::app {
namespace {

struct GenerateFlags : study::CheckpointFlags {
  int count = 64;
};
const std::vector<study::Flag<GenerateFlags>> generate_flags = study::checkpoint_flags<GenerateFlags>(
    {{"count", &GenerateFlags::count, "Number of tokens to generate", at_least(1)}});

const study::FlagNames omitted_by_generate{"vary", "seed", "seeds"};

/// Throws ConfigError if the model reads more tokens than it supports or, without a limit, more than `most_tokens`.
void check_token_count(const ModelSpec& model, std::size_t prompt, int count) {
  const bool limited = model.max_tokens() > 0;
  const std::int64_t most = limited ? model.max_tokens() : stacks::most_tokens;
  const std::int64_t read = static_cast<std::int64_t>(prompt) + count - 1;  // the last token is not read
  if (read <= most) return;
  throw ConfigError(fmt::format("--count {}: expected at most {} tokens including the prompt{}, found {}", count, most,
                                limited ? ", the longest input of the model" : "", read));
}

/// Returns the size of the cache of converted weights in bytes: at most --memory, by default half the available memory.
double cached_weight_bytes(const Checkpoint& checkpoint, const config::RunOptions& run, int threads) {
  const double all = static_cast<double>(checkpoint.files().counts().numbers * size_of(run.dtype));
  return std::min(all, run.memory > 0.0 ? run.memory : stacks::available_bytes(threads) / 2.0);
}

/// Estimates the memory of the pass over the prompt, the keys and values of all tokens, and the cached weights.
stacks::MemoryEstimate generate_memory(const ModelSpec& model, const config::RunOptions& run, int prompt, int longest,
                                       double cached_bytes, int threads) {
  const std::string_view key = "--count or --max-tokens";
  stacks::MemoryEstimate memory = stacks::pass_memory(model, prompt, run.dtype, false, threads);
  double cached = 0.0;
  for (int layer = 0; layer < model.layers; ++layer) cached += 2.0 * longest * model.key_width(layer);
  memory.add(cached * static_cast<double>(size_of(run.dtype)), key);
  memory.key = key;
  memory.add(cached_bytes, "--memory");
  return memory;
}

/// Appends `count` tokens to `ids`, each the one with the largest logit; ties go to the smallest id. Runs a forward
/// pass over `ids` and then one per new token with cached keys and values. Calls `on_token` after each token.
void generate_greedily(const StackContext& c, std::vector<int>& ids, int count, const std::function<void()>& on_token) {
  KeyValueCache cache(c.model.layers, static_cast<Tensor::Index>(ids.size()) + count - 1);  // the last is not read
  for (int i = 0; i < count; ++i) {
    const std::span<const int> unread = std::span(ids).subspan(static_cast<std::size_t>(cache.tokens()));
    const std::vector<double> logits = c.ops.to_host(next_logits(c, cache, unread));
    if (std::ranges::any_of(logits, [](double z) { return std::isnan(z); })) {
      throw Error(ExitCode::runtime_failure,
                  "generate: the model's logits contain NaN, so no token is the most likely");
    }
    ids.push_back(static_cast<int>(std::ranges::max_element(logits) - logits.begin()));
    on_token();
  }
}

/// Returns the length in bytes of an incomplete UTF-8 character at the end of `text`, or 0.
std::size_t incomplete_character(const std::string& text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0U) == 0x80) continue;
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

ExitCode run_generate(const CommonOptions& options) {
  const study::Request request = options.request("generate", study::keys_of_flags(omitted_by_generate));
  const auto own = study::read_flags(generate_flags, request.flags);
  const int count = own.count;
  const config::Config config = study::load_for_checkpoint(request);
  study::require_other_folder("run.out", config.run.out, own.checkpoint);
  const int threads = study::threads_of(config.run);
  omp_set_num_threads(threads);
  const std::string file = config.run.out.empty() ? "" : config.run.out + "/generate.json";
  if (!file.empty()) const OutputFile trial(file);
  const Checkpoint checkpoint(own.checkpoint, own.ignore_keys);
  const ModelSpec& model = checkpoint.model();
  if (!model.causal || !model.unembedding) {
    throw ConfigError(fmt::format("generate {}: expected a causal model with an output head", own.checkpoint));
  }
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  const double cached_bytes = count > 1 ? cached_weight_bytes(checkpoint, config.run, threads) : 0.0;
  const CheckpointWeights weights(*backend, checkpoint, config.run.dtype, static_cast<std::size_t>(cached_bytes));
  const StackContext context{.ops = *backend, .model = model, .weights = weights};
  const stacks::TokenInput input = stacks::read_token_input(own, model, own.checkpoint);
  check_token_count(model, input.ids.size(), count);
  const int prompt = static_cast<int>(input.ids.size());
  const stacks::MemoryEstimate memory =
      generate_memory(model, config.run, prompt, prompt + count - 1, cached_bytes, threads);
  std::vector<int> ids = input.ids;
  const bool prints_text = !options.json && input.tokenizer != nullptr;
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  // The text is printed as it grows, so that an interrupted run does not lose it. A pipe gets all bytes. A terminal
  // gets complete, printable characters only, because text from an untrusted model could contain control sequences.
  std::size_t printed = 0;
  const auto print = [&](bool is_whole) {
    const std::string text = input.tokenizer->decode(ids);
    const std::size_t end = text.size() - (terminal && !is_whole ? incomplete_character(text) : 0);
    if (end <= printed) return;
    const std::string grown = text.substr(printed, end - printed);
    print_result(terminal ? printable(grown, Layout::lines) : grown);
    printed = end;
  };
  bool has_started = false;
  const auto end_text = [&] {
    if (!prints_text || !has_started) return;
    print(true);
    print_result("\n");
  };
  const auto generate = [&] {
    TerminalProgress progress(options.quiet || (prints_text && terminal));  // a progress line would overwrite the text
    has_started = true;
    if (prints_text) print(false);
    progress.begin("generate", count);
    generate_greedily(context, ids, count, [&] {
      if (prints_text) print(false);
      progress.step(fmt::format("id {}", ids.back()));
      progress.throw_if_stop_requested();
    });
  };
  bool stopped = false;
  TerminalProgress messages(options.quiet);
  for (const std::string& warning : checkpoint.warnings())
    messages.say(fmt::format("warning: {}\n", printable(warning)));
  try {
    stacks::within_memory(memory, options.from_flags.force, messages, generate);
  } catch (const stacks::Stopped&) {
    stopped = true;
  } catch (...) {
    end_text();  // puts the error message on a new line
    throw;
  }
  end_text();
  nlohmann::ordered_json json{{"ids", ids}, {"prompt_tokens", input.ids.size()}};
  if (input.tokenizer != nullptr) json["text"] = input.tokenizer->decode(ids);
  json["tokenizer"] = input.tokenizer_name;
  if (!checkpoint.ignored_keys().empty()) json["ignored_keys"] = checkpoint.ignored_keys();
  if (!stopped && !file.empty()) {
    write_file(file, config::json_text(json, 1) + "\n");
    if (!options.quiet) print_message(fmt::format("wrote {}\n", printable(file)));
  }
  const std::string all = fmt::format("{}\n", fmt::join(ids, " "));
  if (prints_text || options.json) {
    if (!options.quiet) print_message(all);
  } else {
    print_result(all);
  }
  if (stopped) throw stacks::Stopped();
  if (options.json) print_json(json);
  return ExitCode::ok;
}

}  // namespace

void add_generate(CLI::App& app, int& code) {
  add_command(app, code, "generate", "Continue a prompt with a checkpoint, always with the most likely token",
              omitted_by_generate, run_generate, flag_texts(generate_flags));
}

}  // namespace periscope::app
