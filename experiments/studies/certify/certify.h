#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/engine/result/schema.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/run/weights_hash.h"
#include "experiments/engine/settings/resolved.h"
#include "experiments/engine/study/checkpoint_flags.h"
#include "experiments/studies/certify/attack.h"
#include "experiments/studies/certify/headroom.h"
#include "sim/numerics/number_format.h"

namespace periscope::certify {

struct Requirement {
  std::optional<theory::SignalClass> kind;  ///< nullopt: every class
  NumberFormat format;
};

/// "fp16" (the residual stream), "mlp:fp16", "all:fp16". Throws ConfigError for anything else.
Requirement parse_requirement(const std::string& word);

/// An exact certificate is compared with the format, a run's with its own arithmetic.
theory::Verdict verdict_of(const theory::Certificate& certificate, const Requirement& requirement);

struct CertifyConfig : study::CheckpointConfig {  // without a checkpoint: the random stack of the first seed
  std::vector<std::string> format_words{"bf16", "fp16", "fp8_e5m2", "fp8_e4m3"};
  std::vector<std::string> requirement_words;
  std::string arithmetic_word = "mixed";
  std::optional<int> attack_steps;
  int length = theory::default_longest;  ///< longest input that is certified, where rounding makes it matter
  std::optional<double> input_maximum;   ///< of real inputs of a random stack: largest |x|
  bool measure = false;                  ///< of a random stack: measure its input
  std::string headroom;                  ///< the format that the stack is scaled into; "": none
  // Parsed from the words.
  std::vector<NumberFormat> formats;  ///< to judge
  std::vector<Requirement> requirements;
  Arithmetic arithmetic = Arithmetic::mixed;  ///< of the verdicts
  int attack = 0;                             ///< steps of every attack; 0: none

  [[nodiscard]] bool measures() const { return measure || !tokens.empty() || !text.empty(); }
};

struct CertifyResult {
  std::string model;   ///< its name
  std::string family;  ///< of a checkpoint; "" for a random stack
  StackSpec spec;
  theory::InputDomain domain;
  std::vector<NumberFormat> formats = {};     ///< that were judged
  Arithmetic arithmetic = Arithmetic::mixed;  ///< of the verdicts
  Certificates certificates = {};             ///< of exact arithmetic and, unless it is exact, of `arithmetic`
  /// Of this program's own arithmetic, pure in f64 or f32; compared with measurements and attacks.
  std::optional<theory::Certificate> own = {};
  std::vector<stacks::NamedHash> weights = {};
  std::vector<std::string> ignored_keys = {};  ///< of the checkpoint's config.json
  std::optional<SignalMaxima> measured = {};
  std::vector<AttackResult> attacks = {};
  BoundsCheck check = {};  ///< of all runs; an exceeded bound is a bug of this program
  Headroom headroom = {};
  config::Resolved resolved = {};  ///< the configuration, hashes of the checkpoint's files, token ids

  [[nodiscard]] theory::Verdict verdict(std::optional<theory::SignalClass> kind, const NumberFormat& format) const {
    return verdict_of(certificates.in(format), {kind, format});
  }
};

/// True if no bound was exceeded and every requirement is certified.
bool passed(const CertifyResult& result, const std::vector<Requirement>& requirements);

/// Returns "squares, layer 3 MLP: may reach 1e+40 > 3.4e+38", or "" for a certificate.
std::string reason_of(const theory::Verdict& verdict, const ModelSpec& model);

/// Smallest block of flash attention, which divides by softmax's denominator after averaging.
constexpr int smallest_block = 64;

/// The longest input for which a certificate of a run's arithmetic also covers such attention
/// (docs/theory/certificates.md, "Division after averaging"). 0: none.
int longest_divided_after(const theory::Certificate& certificate, const ModelSpec& model);

/// Returns the inputs and runs that no certificate covers, in words.
std::vector<std::string> not_covered(const CertifyResult& result);

/// "x_out of sublayer 3, feature 17".
std::string place_text(const SignalPlace& place, const ModelSpec& model);

std::string table(const CertifyResult& result);
const dataset::Schema& schema();
dataset::Dataset dataset_of(const CertifyResult& result);

/// Throws ConfigError for flags and keys that exclude each other.
void require_model(const CertifyConfig& config);

/// Bounds every signal for every input from the weights alone (T17, T24), and compares measurements and attacks with
/// the bounds. Requires require_model. Throws ConfigError if --headroom cannot be met, InputError for a bad checkpoint.
CertifyResult run(const CertifyConfig& config, stacks::Progress& progress);

}  // namespace periscope::certify
