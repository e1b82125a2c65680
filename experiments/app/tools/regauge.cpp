#include "experiments/app/tools/regauge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "experiments/engine/run/rescaled_stack.h"
#include "experiments/engine/settings/config.h"
#include "experiments/engine/settings/theory_parameters.h"
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

/// Certificates shrink with the stream but for what rounding adds near zero, which a few more powers of two outweigh.
constexpr int most_doublings = 8;

void require_gauge(const Checkpoint& checkpoint, TableFactor embedding) {
  const ModelSpec& m = checkpoint.model();
  if (const std::optional<std::string> why = gauge_refusal(m, embedding)) {
    throw ConfigError(
        fmt::format("regauge {}: placement \"{}\": {}; expected streams that only norms A and the final "
                    "norm read, and no norm C",
                    printable(checkpoint.folder()), m.placement.name, *why));
  }
}

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
      .largest = stacks::reach_of(model, certificate).stream, .certified = true, .first_overflow = ""};
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
    return stacks::reach_of(divided, certificate_of(ops_, divided, weights, arithmetic_)).stream;
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

}  // namespace

nlohmann::ordered_json regauge(const RegaugeRequest& request) {
  const Checkpoint checkpoint(request.checkpoint, request.ignore_keys);
  const std::unique_ptr<Backend> ops = make_backend(config::RunOptions().device);
  const RunArithmetic arithmetic =
      request.format ? run_arithmetic(Arithmetic::mixed, *request.format) : RunArithmetic{};
  const Source source(*ops, checkpoint, arithmetic);
  const ModelSpec& m = checkpoint.model();
  require_gauge(checkpoint, source.embedding());
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
  const std::vector<int> ids = stacks::ids_to_run(m, 0);
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
  if (!eps.reason.empty()) json["norm_eps"]["kept_because"] = eps.reason;
  json["tokens"] = ids.size();
  json["logit_difference"] =
      stacks::relative_difference(source.logits(ids, m.norm_eps), result.logits(ids, made.model().norm_eps));
  json["logit_difference_without_eps"] = stacks::relative_difference(source.logits(ids, 0.0), result.logits(ids, 0.0));
  json["tensors"] = {{"multiplied", written.tensors}, {"widened", widened}, {"numbers_rounded", written.rounded}};
  if (!checkpoint.ignored_keys().empty()) json["ignored_keys"] = checkpoint.ignored_keys();
  return json;
}

}  // namespace periscope::app
