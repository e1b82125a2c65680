#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <cmath>
#include <filesystem>

#include "experiments/app/command.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/terminal_progress.h"
#include "experiments/app/tools/regauge.h"
#include "experiments/app/tools/tools.h"
#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/settings/config.h"
#include "experiments/engine/study/checkpoint_flags.h"
#include "sim/base/printable.h"

namespace periscope::app {
namespace {

const study::FlagNames regauged_without{"config", "vary", "seed", "seeds", "device", "dtype", "memory"};

const std::vector<study::Flag<RegaugeRequest>> regauge_flags{
    study::checkpoint_flag<RegaugeRequest>(),
    study::ignore_key_flag<RegaugeRequest>(),
    {"factor", &RegaugeRequest::factor, "Divide the stream by this power of two"},
    {"format", "Divide it by the least power of two with which it is certified to fit fp16, bf16, fp8_e4m3, …",
     [](RegaugeRequest& request, const auto& words) { request.format = config::parse_format(words.back()); }}};

/// Throws ConfigError.
void require_power_of_two(double factor) {
  int exponent = 0;
  if (std::frexp(factor, &exponent) == 0.5 && std::abs(exponent - 1) <= 40) return;
  throw ConfigError(
      fmt::format("--factor {:g}: expected a power of two from 2^-40 to 2^40, which rounds nothing", factor));
}

RegaugeRequest request_of(const CommonOptions& options, const std::string& out) {
  auto request = study::read_flags(regauge_flags, options.asked.flags);
  request.out = out;
  request.overwrite = options.asked.force;
  if (out.empty()) throw ConfigError("--out: expected a folder for the checkpoint");
  if (request.factor.has_value() == request.format.has_value()) {
    throw ConfigError("regauge: expected --factor or --format, one of them");
  }
  if (request.factor) require_power_of_two(*request.factor);
  std::error_code none;
  if (std::filesystem::equivalent(request.checkpoint, out, none)) {
    throw ConfigError(fmt::format("--out {}: is the checkpoint that is read; expected another folder", printable(out)));
  }
  return request;
}

ExitCode run_regauge(const CommonOptions& options) {
  const auto run = study::read_flags(study::run_flags(), options.asked.run);
  const RegaugeRequest request = request_of(options, run.out);
  const int threads = study::threads_of(run);
  omp_set_num_threads(threads);
  TerminalProgress progress(options.quiet);
  const ModelSpec model = Checkpoint(request.checkpoint, request.ignore_keys).model();
  stacks::MemoryEstimate memory = stacks::gram_memory(model);
  memory.then(stacks::pass_memory(model, 32, DType::f64, false, threads));
  // A tensor in f64, and as it is written.
  stacks::MemoryEstimate table;
  table.add(2.0 * 8.0 * model.width * std::max({1.0 * model.mlp_width, 1.0 * model.query_width(), 1.0 * model.vocab}),
            "the checkpoint's largest tensor");
  memory.then(table);
  const nlohmann::ordered_json done =
      stacks::within_memory(memory, options.asked.force, progress, [&] { return regauge(request); });
  progress.say(fmt::format("{}wrote {}\n", regauge_text(done), printable(request.out)));
  if (options.json) print_json(done);
  return ExitCode::ok;
}

std::string stream_words(const nlohmann::ordered_json& stream) {
  const std::string largest = fmt::format("{:.6g}", stream.at("largest").get<double>());
  if (!stream.contains("first_overflow")) return largest;
  return fmt::format("{} (not certified: {} may overflow)", largest, stream.at("first_overflow").get<std::string>());
}

}  // namespace

std::string regauge_text(const nlohmann::ordered_json& done) {
  const auto words = [](const nlohmann::ordered_json& list, const char* separator) {
    return fmt::format("{}", fmt::join(list.get<std::vector<std::string>>(), separator));
  };
  const double factor = done.at("factor");
  std::string text = "the stream fits already: every tensor stays as it is\n";
  if (factor != 1.0) {
    text = fmt::format("divided by {:g}, as the stream: {}\n", factor, words(done.at("divided_by_factor"), "; "));
    if (!done.at("multiplied_by_factor").empty()) {
      text += fmt::format("multiplied by {:g}: {}\n", factor, words(done.at("multiplied_by_factor"), "; "));
    }
  }
  text += fmt::format(
      "largest |x| of the stream that is certified, {}: {} before, {} after\n",
      done.contains("format") ? "for runs in " + done.at("format").get<std::string>() : "in exact arithmetic",
      stream_words(done.at("stream").at("before")), stream_words(done.at("stream").at("after")));
  const nlohmann::ordered_json& eps = done.at("norm_eps");
  const double before = eps.at("before");
  const double after = eps.at("after");
  text += eps.contains("kept_because")
              ? fmt::format("eps of the norms: {:g} as before, because {}; on the stream it acts like {:g}\n", after,
                            eps.at("kept_because").get<std::string>(), after * factor * factor)
              : fmt::format("eps of the norms: {:g} before, {:g} after, as the mean squares that they read\n", before,
                            after);
  const nlohmann::ordered_json& tensors = done.at("tensors");
  text += fmt::format("on {} random tokens logits differ by {:.2g} of the largest, {:.2g} at eps = 0\n",
                      done.at("tokens").dump(), done.at("logit_difference").get<double>(),
                      done.at("logit_difference_without_eps").get<double>());
  text += fmt::format("{} tensors multiplied, {} numbers rounded\n", tensors.at("multiplied").dump(),
                      tensors.at("numbers_rounded").dump());
  for (const auto& [tensor, w] : tensors.at("widened").items()) {
    text += fmt::format("  {}: {} as {}, which holds every number\n", printable(tensor),
                        w.at("from").get<std::string>(), w.at("to").get<std::string>());
  }
  if (done.contains("ignored_keys")) {
    text += fmt::format("ignored keys of config.json: {}\n", printable(words(done.at("ignored_keys"), ", ")));
  }
  return text;
}

void add_regauge(CLI::App& app, int& code) {
  add_command(app, code, "regauge",
              "Write a checkpoint whose stream is smaller and whose function is the same, into --out", regauged_without,
              run_regauge, flag_texts(regauge_flags));
}

}  // namespace periscope::app
