#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "experiments/app/command.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/terminal_progress.h"
#include "experiments/app/tools/tools.h"
#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/run/rescaled_stack.h"
#include "experiments/engine/settings/config.h"
#include "experiments/engine/settings/theory_parameters.h"
#include "experiments/engine/study/checkpoint_flags.h"
#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/checkpoint/checkpoint_weights.h"
#include "sim/checkpoint/scaled_checkpoint.h"
#include "sim/files/output_folder.h"
#include "sim/model/parameters.h"
#include "sim/model/scaled_weights.h"

namespace periscope::app {
namespace {

/// What `regauge` is asked for: one of `factor` and `format`.
struct RegaugeRequest {
  std::string checkpoint;                ///< folder
  std::vector<std::string> ignore_keys;  ///< of its config.json and of the written one
  std::optional<double> factor;          ///< by which the stream is divided
  std::optional<NumberFormat> format;    ///< that the stream is to fit
  std::string out;
  bool overwrite = false;
};

/// Certificates shrink with the stream but for what rounding adds near zero, which a few more powers of two outweigh.
constexpr int most_doublings = 8;

theory::Certificate certificate_of(const Backend& ops, const ModelSpec& model, const WeightSource& weights,
                                   const RunArithmetic& arithmetic, const config::EntryNames& names = {}) {
  return theory::certify(model, config::TheoryParameters(ops, model, weights, names), {}, arithmetic);
}

/// The certificate's verdict on a stream.
struct CertifiedStream {
  double largest;                 ///< bound of |x|, of what is added to x, and of the embedding
  bool certified;                 ///< for a run in the format; without one: true
  std::string first_overflow;     ///< "hidden of sublayer 3": what overflows first where it is not certified
  std::string large_weight = {};  ///< the weight beyond the format, if there is one
};

CertifiedStream certified(const ModelSpec& model, const theory::Certificate& certificate) {
  CertifiedStream stream{
      .largest = stacks::growing_bounds(model, certificate).stream, .certified = true, .first_overflow = ""};
  if (certificate.arithmetic.kind == Arithmetic::exact) return stream;
  const theory::Verdict verdict = theory::verdict(certificate, theory::SignalClass::stream);
  stream.certified = verdict.certified;
  if (!verdict.certified && verdict.first != nullptr) {
    stream.first_overflow = fmt::format("{} of sublayer {}", name_of(verdict.first->signal), verdict.first->sublayer);
    if (verdict.weight != nullptr) stream.large_weight = stacks::weight_words(*verdict.weight, verdict.limit);
  }
  return stream;
}

/// True if nothing but the stream is divided by a root of mean square + ε.
bool only_streams_are_normed(const ModelSpec& m) {
  return std::ranges::all_of(gains_of(m), [](const ParameterId& gain) {
    return gain.weight == Weight::norm_a || gain.weight == Weight::final_norm || gain.weight == Weight::branch_scale;
  });
}

/// ε behind a stream that is divided by c, the configuration that says so, and why it is none of ε/c².
struct EpsOfGauge {
  nlohmann::json config;
  double eps;
  std::string reason = {};
};
EpsOfGauge eps_of_gauge(const Checkpoint& checkpoint, double c) {
  const ModelSpec& m = checkpoint.model();
  EpsOfGauge kept{.config = checkpoint.config(), .eps = m.norm_eps};
  if (m.norm_eps == 0.0 || c == 1.0) return kept;
  if (!only_streams_are_normed(m)) {
    kept.reason = "it is that of norms that do not read the stream, too";
    return kept;
  }
  const double eps = m.norm_eps / (c * c);
  if (std::optional<nlohmann::json> config = config_with_eps(checkpoint, eps)) return {std::move(*config), eps};
  kept.reason = fmt::format("the family {} has no key for it", checkpoint.family().name);
  return kept;
}

ModelSpec with_eps(ModelSpec model, double eps) {
  model.norm_eps = eps;
  return model;
}

/// A checkpoint under regauge: its weights in f64, and what its certificates are for.
class Source {
 public:
  Source(const Backend& ops, const Checkpoint& checkpoint, const RunArithmetic& arithmetic)
      : ops_(ops),
        checkpoint_(checkpoint),
        weights_(ops, checkpoint, DType::f64),
        arithmetic_(arithmetic),
        embedding_(checkpoint.tied() ? TableFactor::tied_table : TableFactor::table) {}

  [[nodiscard]] const ModelSpec& model() const { return checkpoint_.model(); }
  [[nodiscard]] TableFactor embedding() const { return embedding_; }
  [[nodiscard]] StackScale scale(double c) const { return {.stream = 1.0 / c, .embedding = embedding_}; }
  [[nodiscard]] theory::Certificate certificate() const {
    const auto names = [&](const ParameterId& id, std::int64_t entry) { return checkpoint_.entry_name(id, entry); };
    return certificate_of(ops_, model(), weights_, arithmetic_, names);
  }
  /// The largest bound of the stream that is divided by c.
  [[nodiscard]] double reach(double c) const {
    const ModelSpec divided = with_eps(model(), eps_of_gauge(checkpoint_, c).eps);
    const ScaledWeights weights(ops_, model(), weights_, scale(c));
    return stacks::growing_bounds(divided, certificate_of(ops_, divided, weights, arithmetic_)).stream;
  }
  [[nodiscard]] std::vector<double> logits(const std::vector<int>& ids, double eps) const {
    const ModelSpec m = with_eps(model(), eps);
    return stacks::logits_of({.ops = ops_, .model = m, .weights = weights_}, ids);
  }

 private:
  const Backend& ops_;
  const Checkpoint& checkpoint_;
  CheckpointWeights weights_;
  RunArithmetic arithmetic_;
  TableFactor embedding_;
};

/// The least power of two, 1 or more, by which the stream has to be divided to fit the format.
double factor_for(const Source& source, const NumberFormat& format, const CertifiedStream& stream) {
  const double largest = stream.largest;
  if (!std::isfinite(largest)) {
    if (!stream.large_weight.empty())
      throw ConfigError(fmt::format("--format {}: {}", format.name, stream.large_weight));
    throw ConfigError(
        fmt::format("--format {}: the stream has no bound, so no factor brings it into a format", format.name));
  }
  double c = largest <= format.largest ? 1.0 : 1.0 / stacks::power_of_two_below(format.largest / largest);
  for (int i = 0; i < most_doublings && c > 1.0 && source.reach(c) > format.largest; ++i) c *= 2.0;
  return c;
}

nlohmann::ordered_json json_of(const CertifiedStream& stream, bool judged) {
  nlohmann::ordered_json json{{"largest", stream.largest}};
  if (judged) json["certified"] = stream.certified;
  if (!stream.certified) json["first_overflow"] = stream.first_overflow;
  return json;
}

/// Writes the checkpoint of request.checkpoint into request.out with another size of its stream and the same function,
/// reads what was written, certifies it and runs it beside the original. Returns what was done, as --json has it.
/// Throws ConfigError for a placement where the stream's size is no gauge, for a stream without a bound where a format
/// is asked for, and as write_scaled does.
nlohmann::ordered_json regauge(const RegaugeRequest& request) {
  const Checkpoint checkpoint(request.checkpoint, request.ignore_keys);
  const std::unique_ptr<Backend> ops = make_backend(config::RunOptions().device);
  const RunArithmetic arithmetic =
      request.format ? run_arithmetic(Arithmetic::mixed, *request.format) : RunArithmetic{};
  const Source source(*ops, checkpoint, arithmetic);
  const ModelSpec& m = checkpoint.model();
  if (const std::optional<std::string> why = gauge_unsupported(m, source.embedding())) {
    throw ConfigError(
        fmt::format("regauge {}: placement \"{}\": {}; expected streams that only norms A and the final norm read, and "
                    "no norm C",
                    printable(checkpoint.folder()), m.placement.name, *why));
  }
  { const OutputFolder trial(request.out, {"model.safetensors", "config.json"}, request.overwrite); }
  const CertifiedStream before = certified(m, source.certificate());
  const double factor = request.factor ? *request.factor : factor_for(source, *request.format, before);
  const StackScale scale = source.scale(factor);
  const EpsOfGauge eps = eps_of_gauge(checkpoint, factor);
  const ScaledTensors written = write_scaled(
      request.out, checkpoint, eps.config, [&](const ParameterId& id) { return factor_of(m, scale, id); },
      request.overwrite);
  const Checkpoint made(request.out, request.ignore_keys);
  const Source result(*ops, made, arithmetic);
  const CertifiedStream after = certified(made.model(), result.certificate());
  const std::vector<int> ids = stacks::random_token_ids(m, 0);
  const ScaleRecipe recipe = recipe_of(m, source.embedding());
  nlohmann::ordered_json widened = nlohmann::ordered_json::object();
  for (const ScaledTensors::Widened& w : written.widened) {
    widened[w.tensor] = {{"from", name_of(w.from)}, {"to", name_of(w.to)}};
  }
  nlohmann::ordered_json json{{"factor", factor}};
  const bool judged = request.format.has_value();
  if (judged) json["format"] = request.format->name;
  json["arithmetic"] = arithmetic_names[static_cast<std::size_t>(arithmetic.kind)];
  json["divided_by_factor"] = recipe.multiplied;
  json["multiplied_by_factor"] = recipe.divided;
  json["stream"] = {{"before", json_of(before, judged)}, {"after", json_of(after, judged)}};
  json["norm_eps"] = {{"before", m.norm_eps}, {"after", eps.eps}};
  if (!eps.reason.empty()) json["norm_eps"]["unchanged_because"] = eps.reason;
  json["tokens"] = ids.size();
  json["logit_difference"] =
      stacks::relative_difference(source.logits(ids, m.norm_eps), result.logits(ids, made.model().norm_eps));
  json["logit_difference_without_eps"] = stacks::relative_difference(source.logits(ids, 0.0), result.logits(ids, 0.0));
  json["tensors"] = {{"multiplied", written.tensors}, {"widened", widened}, {"numbers_rounded", written.rounded}};
  if (!checkpoint.ignored_keys().empty()) json["ignored_keys"] = checkpoint.ignored_keys();
  return json;
}

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
  auto request = study::read_flags(regauge_flags, options.from_flags.flags);
  request.out = out;
  request.overwrite = options.from_flags.force;
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

std::string stream_words(const nlohmann::ordered_json& stream) {
  const std::string largest = fmt::format("{:.6g}", stream.at("largest").get<double>());
  if (!stream.contains("first_overflow")) return largest;
  return fmt::format("{} (not certified: {} may overflow)", largest, stream.at("first_overflow").get<std::string>());
}

/// Returns the answer of `regauge` for people.
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
  text += eps.contains("unchanged_because")
              ? fmt::format("eps of the norms: {:g} as before, because {}; on the stream it acts like {:g}\n", after,
                            eps.at("unchanged_because").get<std::string>(), after * factor * factor)
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

ExitCode run_regauge(const CommonOptions& options) {
  const auto run = study::read_flags(study::run_flags(), options.from_flags.run);
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
      stacks::within_memory(memory, options.from_flags.force, progress, [&] { return regauge(request); });
  progress.say(fmt::format("{}wrote {}\n", regauge_text(done), printable(request.out)));
  if (options.json) print_json(done);
  return ExitCode::ok;
}

}  // namespace

void add_regauge(CLI::App& app, int& code) {
  add_command(app, code, "regauge",
              "Write a checkpoint whose stream is smaller and whose function is the same, into --out", regauged_without,
              run_regauge, flag_texts(regauge_flags));
}

}  // namespace periscope::app
