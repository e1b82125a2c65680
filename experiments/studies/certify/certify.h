#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/engine/result/schema.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/settings/resolved.h"
#include "experiments/engine/settings/theory_parameters.h"
#include "experiments/engine/study/checkpoint_flags.h"
#include "experiments/studies/certify/attack.h"
#include "sim/model/scaled_weights.h"
#include "sim/numerics/number_format.h"
#include "theory/certify/certificate.h"

namespace periscope::certify {

/// Certificates of a stack for exact arithmetic and for runs in number formats.
struct Certificates {
  theory::Certificate exact = {};
  std::vector<theory::Certificate> runs = {};
  std::vector<theory::Certificate> caches = {};  ///< runs in bf16 that store keys and values in a format of 8 bits

  /// Returns the certificate of the run that stores signals in `format`, or `exact` if there is none.
  [[nodiscard]] const theory::Certificate& in(const NumberFormat& format) const;
  /// Returns the certificate for a class of signals (nullopt: all) in `format`. The cache of an 8-bit format belongs to
  /// a run in bf16.
  [[nodiscard]] const theory::Certificate& of(std::optional<theory::SignalClass> kind,
                                              const NumberFormat& format) const;
};

/// The factors by which a stack's stream and branches can be scaled in a number format.
struct FormatHeadroom {
  NumberFormat format;
  double stream;            ///< largest power of two c for which every class of signals is certified, or NaN
  double branch;            ///< largest certified power of two k at c = `stream`; NaN if c is NaN or without norms B
  double measured;          ///< largest c for which `margin` times the measured maximum fits; NaN if not measured
  StackScale fitting;       ///< fitting powers of two for stream and branches; 0 for an unbounded stream
  std::string reason = {};  ///< why no c is certified; "" if one is
};

/// A scaled stack compared with the original, in f64 on the same tokens.
struct ScaledRun {
  StackScale scale;
  int tokens = 0;
  double difference = 0.0;         ///< max |Δ logit| / max |logit|
  double without_eps = 0.0;        ///< `difference` with ε = 0 in both stacks, due to rounding alone
  double gains_alone = 0.0;        ///< `difference` if only gains and the embedding are scaled
  ModelSpec model;                 ///< model of the scaled stack
  Certificates certificates = {};  ///< certificates of the scaled stack
};

/// Headroom of a stack (T17). Scaling the stream by c, and branches before norms B by k, leaves the function unchanged.
struct Headroom {
  static constexpr double margin = 4.0;      ///< safety factor for measured maxima
  static constexpr int most_doublings = 40;  ///< c and k are between 2^-40 and 2^40

  ScaleRecipe recipe;
  std::vector<FormatHeadroom> formats;  ///< one per requested format; empty if the stack cannot be scaled
  std::optional<ScaledRun> run;
};

/// Returns why the stack cannot be scaled. Requires !can_scale(model).
std::string why_unscalable(const ModelSpec& model);

/// Certifies the scaled stack in the arithmetic of `like`, a certificate of the original stack.
using CertifyScaled = std::function<theory::Certificate(const StackScale& scale, const theory::Certificate& like)>;

/// Returns the headroom in `formats`. Per format, calls `certify_at` usually one to three times, at most about ten.
Headroom headroom_of(const ModelSpec& model, const Certificates& certificates, std::span<const NumberFormat> formats,
                     const SignalMaxima* measured, const CertifyScaled& certify_at,
                     TableFactor embedding = TableFactor::scale);

/// Returns a CertifyScaled for a stack with weights in f64. Error messages refer to weights by `names`.
CertifyScaled certify_scaled(const StackContext& context, const theory::InputDomain& domain,
                             config::EntryNames names = {});

/// Scales the stack, runs both stacks on `ids`, and certifies the scaled one in each arithmetic of `certificates`.
ScaledRun run_scaled(const StackContext& context, const StackScale& scale, std::span<const int> ids,
                     const Certificates& certificates, const CertifyScaled& certify_at);

struct Requirement {
  std::optional<theory::SignalClass> kind;  ///< nullopt: every class
  NumberFormat format;
};

/// Parses "fp16" (the residual stream), "mlp:fp16" or "all:fp16". Throws ConfigError for anything else.
Requirement parse_requirement(const std::string& word);

struct CertifyConfig : study::CheckpointConfig {  // without a checkpoint: the random stack of the first seed
  std::vector<std::string> format_words{"bf16", "fp16", "fp8_e5m2", "fp8_e4m3"};
  std::vector<std::string> requirement_words;
  Arithmetic arithmetic = Arithmetic::mixed;  ///< arithmetic of the runs to certify
  std::optional<int> attack;                  ///< steps per restart; nullopt: no attacks
  int length = theory::default_longest;       ///< longest certified input in tokens; rounding depends on the length
  std::optional<double> input_maximum;        ///< largest |x| of real inputs of a random stack
  bool measure = false;                       ///< measure the signals of a random stack on its input
  std::string headroom;                       ///< number format to scale the stack into; "": none
  // Parsed from format_words and requirement_words.
  std::vector<NumberFormat> formats;  ///< formats to certify
  std::vector<Requirement> requirements;

  [[nodiscard]] bool measures() const { return measure || !tokens.empty() || !text.empty(); }
};

struct CertifyResult {
  std::string model;
  std::string family;  ///< family of the checkpoint; "" for a random stack
  StackSpec spec;
  theory::InputDomain domain;
  CertifyConfig config = {};
  Certificates certificates = {};  ///< for exact arithmetic and for config.arithmetic
  /// Certificate for this program's own arithmetic (pure f64 or f32); compared with measurements and attacks.
  std::optional<theory::Certificate> own = {};
  std::vector<study::NamedHash> weights = {};
  std::vector<std::string> ignored_keys = {};  ///< keys of config.json that were ignored
  std::optional<SignalMaxima> measured = {};
  std::vector<AttackResult> attacks = {};
  BoundsCheck check = {};  ///< bounds against maxima of all runs; an exceeded bound is a bug in this program
  Headroom headroom = {};
  config::Resolved resolved = {};  ///< the configuration, hashes of the checkpoint's files, token ids

  [[nodiscard]] theory::Verdict verdict(std::optional<theory::SignalClass> kind, const NumberFormat& format) const {
    return theory::verdict(certificates.of(kind, format), kind, format);
  }
};

/// Returns whether no bound was exceeded and every requirement is certified.
bool passed(const CertifyResult& result, const std::vector<Requirement>& requirements);

/// Returns a text such as "squares, layer 3 MLP: may reach 1e+40 > 3.4e+38", or "" if certified.
std::string reason_of(const theory::Verdict& verdict, const ModelSpec& model);

/// Smallest block of flash attention (which divides by softmax's denominator after averaging) that certificates cover.
constexpr int smallest_block = 64;

/// Largest entry of the keys or values of a key/value head that a cache stores.
struct CachedHead {
  Signal signal;  ///< k or v
  int layer, head;
  double bound;
};
/// Returns the keys and then the values of every layer and head.
std::vector<CachedHead> cached_heads(const theory::Certificate& certificate, const ModelSpec& model);

/// Returns the products of a run that stores signals in FP16 and whose partial sums, accumulated in FP16 for one
/// product at a time, may overflow: the worst sublayer of each.
std::vector<theory::ProductBound> overflowing_products(const CertifyResult& result);

/// Returns the longest input for which a run's certificate also covers division after averaging
/// (docs/theory/certificates.md, "Division after averaging"); 0 if no length is covered.
int longest_divided_after(const theory::Certificate& certificate, const ModelSpec& model);

/// Returns the inputs and runs that no certificate covers, in words.
std::vector<std::string> not_covered(const CertifyResult& result);

/// Returns a text such as "x_out, layer 1 MLP, feature 17".
std::string place_text(const SignalPlace& place, const ModelSpec& model);

std::string table(const CertifyResult& result);
const dataset::Schema& schema();
dataset::Dataset dataset_of(const CertifyResult& result);

/// Throws ConfigError for mutually exclusive flags and keys.
void require_model(const CertifyConfig& config);

/// Bounds every signal for every input from the weights alone (T17, T24); compares measurements and attacks with the
/// bounds. Requires require_model(config). Throws ConfigError for an unreachable --headroom, InputError for an invalid
/// checkpoint.
CertifyResult run(const CertifyConfig& config, stacks::Progress& progress);

}  // namespace periscope::certify
