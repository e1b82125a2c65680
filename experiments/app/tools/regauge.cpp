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

/// Parameters of `regauge`; either `factor` or `format` is set.
struct RegaugeRequest {
  std::string checkpoint;                ///< folder
  std::vector<std::string> ignore_keys;  ///< keys of config.json to ignore, in this checkpoint and in the written one
  std::optional<double> factor;          ///< divisor of the stream
  std::optional<NumberFormat> format;    ///< number format that the stream must fit
  std::string out;
  bool overwrite = false;
};

/// Bounds scale with the stream except for rounding errors near zero, which a few extra doublings compensate.
constexpr int most_doublings = 8;

theory::Certificate certificate_of(const Backend& ops, const ModelSpec& model, const WeightSource& weights,
                                   const RunArithmetic& arithmetic, const config::EntryNames& names = {}) {
  return theory::certify(model, config::TheoryParameters(ops, model, weights, names), {}, arithmetic);
}

/// Verdict of a certificate on the stream.
struct CertifiedStream {
  double largest;                 ///< bound on |x|, on every addition to x, and on the embedding
  bool certified;                 ///< true if no format is given, or if the stream cannot overflow in this format
  std::string first_overflow;     ///< first signal that may overflow, such as "hidden of sublayer 3"; "" if certified
  std::string large_weight = {};  ///< message about a weight beyond the format's range, or ""
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

/// Returns true if every norm with ε reads the stream, so that ε can be rescaled with the stream.
bool norms_read_only_the_stream(const ModelSpec& m) {
  return std::ranges::all_of(gains_of(m), [](const ParameterId& gain) {
    return gain.weight == Weight::norm_a || gain.weight == Weight::final_norm || gain.weight == Weight::branch_scale;
  });
}

/// ε of the norms for a stream divided by c: ε/c² if the family supports it, else ε.
struct ScaledEps {
  nlohmann::json config;  ///< config.json with this ε
  double eps;
  std::string reason = {};  ///< why ε is unchanged, or ""
};
ScaledEps scaled_eps(const Checkpoint& checkpoint, double c) {
  const ModelSpec& m = checkpoint.model();
  ScaledEps unchanged{.config = checkpoint.config(), .eps = m.norm_eps};
  if (m.norm_eps == 0.0 || c == 1.0) return unchanged;
  if (!norms_read_only_the_stream(m)) {
    unchanged.reason = "norms that do not read the stream use the same eps";
    return unchanged;
  }
  const double eps = m.norm_eps / (c * c);
  if (std::optional<nlohmann::json> config = config_with_eps(checkpoint, eps)) return {std::move(*config), eps};
  unchanged.reason = fmt::format("the family {} has no configuration key for eps", checkpoint.family().name);
  return unchanged;
}

ModelSpec with_eps(ModelSpec model, double eps) {
  model.norm_eps = eps;
  return model;
}

/// A checkpoint with its weights in f64, certified for `arithmetic`.
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
  /// Returns the certified bound on the stream after division by c.
  [[nodiscard]] double reach(double c) const {
    const ModelSpec divided = with_eps(model(), scaled_eps(checkpoint_, c).eps);
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

/// Returns the smallest power of two c ≥ 1 such that the stream divided by c fits the format.
double factor_for(const Source& source, const NumberFormat& format, const CertifiedStream& stream) {
  const double largest = stream.largest;
  if (!std::isfinite(largest)) {
    if (!stream.large_weight.empty())
      throw ConfigError(fmt::format("--format {}: {}", format.name, stream.large_weight));
    throw ConfigError(
        fmt::format("--format {}: the stream has no finite bound, so no factor makes it fit", format.name));
  }
  double c = largest <= format.largest ? 1.0 : 1.0 / stacks::power_of_two_below(format.largest / largest);
  for (int i = 0; i < most_doublings && c > 1.0 && source.reach(c) > format.largest; ++i) c *= 2.0;
  return c;
}

nlohmann::ordered_json json_of(const CertifiedStream& stream, bool has_format) {
  nlohmann::ordered_json json{{"largest", stream.largest}};
  if (has_format) json["certified"] = stream.certified;
  if (!stream.certified) json["first_overflow"] = stream.first_overflow;
  return json;
}

/// Writes the checkpoint with a rescaled stream and the same function, certifies the written files and compares their
/// logits with the original ones. Returns the report of --json. Throws ConfigError if the output depends on the size of
/// the stream or, for a format, if the stream is unbounded. Also throws the errors of write_scaled.
nlohmann::ordered_json regauge(const RegaugeRequest& request) {
  const Checkpoint checkpoint(request.checkpoint, request.ignore_keys);
  const std::unique_ptr<Backend> ops = make_backend(config::RunOptions().device);
  const RunArithmetic arithmetic =
      request.format ? run_arithmetic(Arithmetic::mixed, *request.format) : RunArithmetic{};
  const Source source(*ops, checkpoint, arithmetic);
  const ModelSpec& m = checkpoint.model();
  if (const std::optional<std::string> reason = gauge_unsupported(m, source.embedding())) {
    throw ConfigError(fmt::format(
        "regauge {}: placement \"{}\": {}; expected a stream that only norms A and the final norm read, and no norm C",
        printable(checkpoint.folder()), m.placement.name, *reason));
  }
  for (const std::string& tensor : checkpoint.unused()) {
    if (!checkpoint.config().contains("text_config") || !checkpoint.is_of_other_part(tensor)) continue;
    throw ConfigError(
        fmt::format("regauge {}: tensor \"{}\": expected a model of text alone, because the stream's other "
                    "inputs, such as images, would keep their size",
                    printable(checkpoint.folder()), printable(tensor)));
  }
  { const OutputFolder trial(request.out, {"model.safetensors", "config.json"}, request.overwrite); }
  const CertifiedStream before = certified(m, source.certificate());
  const double factor = request.factor ? *request.factor : factor_for(source, *request.format, before);
  const StackScale scale = source.scale(factor);
  const ScaledEps eps = scaled_eps(checkpoint, factor);
  const ScaledTensors written = write_scaled(
      request.out, checkpoint, eps.config, [&](const ParameterId& id) { return factor_of(m, scale, id); },
      request.overwrite);
  const Checkpoint rescaled(request.out, request.ignore_keys);
  const Source result(*ops, rescaled, arithmetic);
  const CertifiedStream after = certified(rescaled.model(), result.certificate());
  const std::vector<int> ids = stacks::random_token_ids(m, 0);
  const ScaleRecipe recipe = recipe_of(m, source.embedding());
  nlohmann::ordered_json widened = nlohmann::ordered_json::object();
  for (const ScaledTensors::Widened& w : written.widened) {
    widened[w.tensor] = {{"from", name_of(w.from)}, {"to", name_of(w.to)}};
  }
  nlohmann::ordered_json json{{"factor", factor}};
  const bool has_format = request.format.has_value();
  if (has_format) json["format"] = request.format->name;
  json["arithmetic"] = arithmetic_names[static_cast<std::size_t>(arithmetic.kind)];
  json["divided_by_factor"] = recipe.multiplied;
  json["multiplied_by_factor"] = recipe.divided;
  json["stream"] = {{"before", json_of(before, has_format)}, {"after", json_of(after, has_format)}};
  json["norm_eps"] = {{"before", m.norm_eps}, {"after", eps.eps}};
  if (!eps.reason.empty()) json["norm_eps"]["unchanged_because"] = eps.reason;
  json["tokens"] = ids.size();
  json["logit_difference"] =
      stacks::relative_difference(source.logits(ids, m.norm_eps), result.logits(ids, rescaled.model().norm_eps));
  json["logit_difference_without_eps"] = stacks::relative_difference(source.logits(ids, 0.0), result.logits(ids, 0.0));
  json["tensors"] = {{"multiplied", written.tensors}, {"widened", widened}, {"numbers_rounded", written.rounded}};
  if (!checkpoint.ignored_keys().empty()) json["ignored_keys"] = checkpoint.ignored_keys();
  return json;
}

const study::FlagNames omitted_by_regauge{"config", "vary", "seed", "seeds", "device", "dtype", "memory"};

const std::vector<study::Flag<RegaugeRequest>> regauge_flags{
    study::checkpoint_flag<RegaugeRequest>(),
    study::ignore_key_flag<RegaugeRequest>(),
    {"factor", &RegaugeRequest::factor, "Power of two to divide the stream by"},
    {"format", "Use the smallest power of two for which the stream is certified to fit fp16, bf16, fp8_e4m3, …",
     [](RegaugeRequest& request, const auto& words) { request.format = config::parse_format(words.back()); }}};

void require_power_of_two(double factor) {
  int exponent = 0;
  if (std::frexp(factor, &exponent) == 0.5 && std::abs(exponent - 1) <= 40) return;
  throw ConfigError(
      fmt::format("--factor {:g}: expected a power of two from 2^-40 to 2^40, which avoids rounding", factor));
}

RegaugeRequest request_of(const CommonOptions& options, const std::string& out) {
  auto request = study::read_flags(regauge_flags, options.from_flags.flags);
  request.out = out;
  request.overwrite = options.from_flags.force;
  if (out.empty()) throw ConfigError("--out: expected a folder for the checkpoint");
  if (request.factor.has_value() == request.format.has_value()) {
    throw ConfigError("regauge: expected either --factor or --format");
  }
  if (request.factor) require_power_of_two(*request.factor);
  std::error_code ignored;
  if (std::filesystem::equivalent(request.checkpoint, out, ignored)) {
    throw ConfigError(fmt::format("--out {}: expected a folder other than the input checkpoint's", printable(out)));
  }
  return request;
}

std::string stream_words(const nlohmann::ordered_json& stream) {
  const std::string largest = fmt::format("{:.6g}", stream.at("largest").get<double>());
  if (!stream.contains("first_overflow")) return largest;
  return fmt::format("{} (not certified: {} may overflow)", largest, stream.at("first_overflow").get<std::string>());
}

std::string regauge_text(const nlohmann::ordered_json& report) {
  const auto words = [](const nlohmann::ordered_json& list, const char* separator) {
    return fmt::format("{}", fmt::join(list.get<std::vector<std::string>>(), separator));
  };
  const double factor = report.at("factor");
  std::string text = "the stream already fits; all tensors are unchanged\n";
  if (factor != 1.0) {
    text = fmt::format("stream and these tensors divided by {:g}: {}\n", factor,
                       words(report.at("divided_by_factor"), "; "));
    if (!report.at("multiplied_by_factor").empty()) {
      text += fmt::format("multiplied by {:g}: {}\n", factor, words(report.at("multiplied_by_factor"), "; "));
    }
  }
  text += fmt::format(
      "certified bound on |x| in the stream, {}: {} before, {} after\n",
      report.contains("format") ? "for runs in " + report.at("format").get<std::string>() : "in exact arithmetic",
      stream_words(report.at("stream").at("before")), stream_words(report.at("stream").at("after")));
  const nlohmann::ordered_json& eps = report.at("norm_eps");
  const double before = eps.at("before");
  const double after = eps.at("after");
  text += eps.contains("unchanged_because")
              ? fmt::format("eps of the norms: {:g}, unchanged because {}; equivalent to {:g} before rescaling\n",
                            after, eps.at("unchanged_because").get<std::string>(), after * factor * factor)
              : fmt::format("eps of the norms: {:g} before, {:g} after, scaled like the mean square of the stream\n",
                            before, after);
  const nlohmann::ordered_json& tensors = report.at("tensors");
  text += fmt::format(
      "logits of {} random tokens: largest difference {:.2g} times the largest logit, {:.2g} times at eps = 0\n",
      report.at("tokens").dump(), report.at("logit_difference").get<double>(),
      report.at("logit_difference_without_eps").get<double>());
  text += fmt::format("{} tensors rescaled, {} numbers rounded\n", tensors.at("multiplied").dump(),
                      tensors.at("numbers_rounded").dump());
  for (const auto& [tensor, w] : tensors.at("widened").items()) {
    text += fmt::format("  {}: {} widened to {}, which represents every value exactly\n", printable(tensor),
                        w.at("from").get<std::string>(), w.at("to").get<std::string>());
  }
  if (report.contains("ignored_keys")) {
    text += fmt::format("ignored keys of config.json: {}\n", printable(words(report.at("ignored_keys"), ", ")));
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
  memory.add_phase(stacks::pass_memory(model, 32, DType::f64, false, threads));
  stacks::MemoryEstimate writing;  // a tensor in f64 and its copy in the written format
  writing.add(
      2.0 * 8.0 * model.width * std::max({1.0 * model.mlp_width, 1.0 * model.largest_query_width(), 1.0 * model.vocab}),
      "the checkpoint's largest tensor");
  memory.add_phase(writing);
  const nlohmann::ordered_json report =
      stacks::within_memory(memory, options.from_flags.force, progress, [&] { return regauge(request); });
  progress.say(fmt::format("{}wrote {}\n", regauge_text(report), printable(request.out)));
  if (options.json) print_json(report);
  return ExitCode::ok;
}

}  // namespace

void add_regauge(CLI::App& app, int& code) {
  add_command(app, code, "regauge",
              "Rescale a checkpoint to a smaller stream without changing its function, into --out", omitted_by_regauge,
              run_regauge, flag_texts(regauge_flags))
      ->get_option("--out")
      ->description("Folder for the checkpoint");
}

}  // namespace periscope::app
