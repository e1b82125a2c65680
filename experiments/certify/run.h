#pragma once

#include "experiments/certify/certify.h"
#include "experiments/common/config.h"
#include "experiments/common/progress.h"
#include "experiments/probe/token_input.h"

namespace periscope {

/// What is certified, and what is tried besides.
struct CertifyConfig : Config {
  std::string checkpoint;  ///< its folder; "": the random stack of the first seed
  std::vector<NumberFormat> formats;
  Arithmetic arithmetic = Arithmetic::mixed;  ///< that verdicts are for
  int length = theory::default_longest;       ///< longest input that is certified, where rounding makes it matter
  std::optional<double> input_maximum;        ///< of real inputs of a random stack: largest |x|
  TokenSource source;                         ///< of a checkpoint: tokens to measure
  bool measure = false;                       ///< of a random stack: measure its input
  int attack = 0;                             ///< steps of every attack on a bound; 0: none
  std::string headroom;                       ///< the format that the stack is scaled into; "": none

  [[nodiscard]] bool measures() const { return measure || source.tokens || source.text; }
};

extern const Section<CertifyConfig> certify_section;

/// Bounds every signal for every input from the weights alone (T17, T24), and holds what is measured and attacked
/// against the bounds. Throws ConfigError for what does not go together, InputError for a bad checkpoint.
CertifyResult certify(const CertifyConfig& config, Progress& progress);

}  // namespace periscope
