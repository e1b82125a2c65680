#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "experiments/app/command.h"
#include "experiments/app/publish.h"
#include "experiments/app/terminal_progress.h"
#include "experiments/app/tools/info.h"
#include "experiments/app/tools/regauge.h"
#include "experiments/app/tools/tools.h"
#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/settings/config.h"
#include "sim/base/printable.h"

namespace periscope::app {
namespace {

constexpr study::CommonFlags regauged_with{
    .config = false, .vary = false, .seed = false, .seeds = false, .device = false, .dtype = false, .memory = false};

struct RegaugeFlags {
  std::string folder;
  std::optional<double> factor;
  std::string format;
  study::FlagValues words;
};

double require_power_of_two(double factor) {
  int exponent = 0;
  if (std::frexp(factor, &exponent) == 0.5 && std::abs(exponent - 1) <= 40) return factor;
  throw ConfigError(
      fmt::format("--factor {:g}: expected a power of two from 2^-40 to 2^40, which rounds nothing", factor));
}

RegaugeRequest request_of(const CommonOptions& options, const RegaugeFlags& flags) {
  RegaugeRequest request{.folder = flags.folder,
                         .ignore_keys = study::read_flags(ignore_key_flags(), flags.words).ignore_keys,
                         .out = options.asked.out.value_or(""),
                         .overwrite = options.asked.force};
  if (request.out.empty()) throw ConfigError("--out: expected a folder for the checkpoint");
  if (flags.factor.has_value() == !flags.format.empty()) {
    throw ConfigError("regauge: expected --factor or --format, one of them");
  }
  if (flags.factor) {
    request.factor = require_power_of_two(*flags.factor);
  } else {
    request.format = config::parse_format(flags.format);
  }
  std::error_code none;
  if (std::filesystem::equivalent(request.folder, request.out, none)) {
    throw ConfigError(
        fmt::format("--out {}: is the checkpoint that is read; expected another folder", printable(request.out)));
  }
  return request;
}

ExitCode run_regauge(const CommonOptions& options, const RegaugeFlags& flags) {
  const RegaugeRequest request = request_of(options, flags);
  config::RunOptions run;
  run.threads = options.asked.threads.value_or(0);
  const int threads = study::threads_of(run);
  omp_set_num_threads(threads);
  TerminalProgress progress(options.quiet);
  const ModelSpec model = Checkpoint(request.folder, request.ignore_keys).model();
  stacks::MemoryEstimate memory = stacks::gram_memory(model);
  memory.then(stacks::pass_memory(model, 32, DType::f64, false, threads));
  // A tensor in f64, and as it is written.
  stacks::MemoryEstimate table;
  table.add(2.0 * 8.0 * model.width * std::max({1.0 * model.mlp_width, 1.0 * model.query_width(), 1.0 * model.vocab}),
            "the checkpoint's largest tensor");
  memory.then(table);
  const Regauged done = stacks::within_memory(memory, options.asked.force, progress, [&] { return regauge(request); });
  progress.say(fmt::format("{}wrote {}\n", regauge_text(done), printable(request.out)));
  if (options.json) print_json(regauge_json(done));
  return ExitCode::ok;
}

nlohmann::ordered_json json_of(const CertifiedStream& stream, bool judged) {
  nlohmann::ordered_json json{{"largest", stream.largest}};
  if (judged) json["certified"] = stream.certified;
  if (!stream.certified) json["first_overflow"] = stream.first_overflow;
  return json;
}

std::string text_of(const CertifiedStream& stream) {
  if (stream.certified) return fmt::format("{:.6g}", stream.largest);
  return fmt::format("{:.6g} (not certified: {} may overflow)", stream.largest, stream.first_overflow);
}

}  // namespace

nlohmann::ordered_json regauge_json(const Regauged& done) {
  const bool judged = done.arithmetic.kind != Arithmetic::exact;
  nlohmann::ordered_json widened = nlohmann::ordered_json::object();
  for (const ScaledTensors::Widened& w : done.written.widened) {
    widened[w.tensor] = {{"from", name_of(w.from)}, {"to", name_of(w.to)}};
  }
  nlohmann::ordered_json json{{"factor", done.factor}};
  if (judged) json["format"] = done.arithmetic.stored.name;
  json["arithmetic"] = arithmetic_names[static_cast<std::size_t>(done.arithmetic.kind)];
  json["divided_by_factor"] = done.recipe.multiplied;
  json["multiplied_by_factor"] = done.recipe.divided;
  json["stream"] = {{"before", json_of(done.before, judged)}, {"after", json_of(done.after, judged)}};
  json["norm_eps"] = {{"before", done.eps_before}, {"after", done.eps_after}};
  if (!done.eps_reason.empty()) json["norm_eps"]["kept_because"] = done.eps_reason;
  json["tokens"] = done.tokens;
  json["logit_difference"] = done.difference;
  json["logit_difference_without_eps"] = done.without_eps;
  json["tensors"] = {
      {"multiplied", done.written.tensors}, {"widened", widened}, {"numbers_rounded", done.written.rounded}};
  if (!done.ignored_keys.empty()) json["ignored_keys"] = done.ignored_keys;
  return json;
}

std::string regauge_text(const Regauged& done) {
  std::string text = "the stream fits already: every tensor stays as it is\n";
  if (done.factor != 1.0) {
    text = fmt::format("divided by {:g}, as the stream: {}\n", done.factor, fmt::join(done.recipe.multiplied, "; "));
    if (!done.recipe.divided.empty()) {
      text += fmt::format("multiplied by {:g}: {}\n", done.factor, fmt::join(done.recipe.divided, "; "));
    }
  }
  const bool judged = done.arithmetic.kind != Arithmetic::exact;
  text += fmt::format("largest |x| of the stream that is certified, {}: {} before, {} after\n",
                      judged ? fmt::format("for runs in {}", done.arithmetic.stored.name) : "in exact arithmetic",
                      text_of(done.before), text_of(done.after));
  text += done.eps_reason.empty()
              ? fmt::format("eps of the norms: {:g} before, {:g} after, as the mean squares that they read\n",
                            done.eps_before, done.eps_after)
              : fmt::format("eps of the norms: {:g} as before, because {}; on the stream it acts like {:g}\n",
                            done.eps_after, done.eps_reason, done.eps_after * done.factor * done.factor);
  text += fmt::format("on {} random tokens logits differ by {:.2g} of the largest, {:.2g} at eps = 0\n", done.tokens,
                      done.difference, done.without_eps);
  text += fmt::format("{} tensors multiplied, {} numbers rounded\n", done.written.tensors, done.written.rounded);
  for (const ScaledTensors::Widened& w : done.written.widened) {
    text +=
        fmt::format("  {}: {} as {}, which holds every number\n", printable(w.tensor), name_of(w.from), name_of(w.to));
  }
  if (!done.ignored_keys.empty()) {
    text += fmt::format("ignored keys of config.json: {}\n",
                        printable(fmt::format("{}", fmt::join(done.ignored_keys, ", "))));
  }
  return text;
}

void add_regauge(CLI::App& app, int& code) {
  const auto flags = std::make_shared<RegaugeFlags>();
  CLI::App* command = add_command(
      app, code, "regauge", "Write a checkpoint whose stream is smaller and whose function is the same, into --out",
      regauged_with, [=](const CommonOptions& options) { return run_regauge(options, *flags); });
  command->add_option("folder", flags->folder, "Folder with config.json and safetensors files")->required();
  add_flags(*command, study::flag_texts(ignore_key_flags()), flags->words);
  command->add_option("--factor", flags->factor, "Divide the stream by this power of two");
  command->add_option("--format", flags->format,
                      "Divide it by the least power of two with which it is certified to fit fp16, bf16, fp8_e4m3, …");
}

}  // namespace periscope::app
