#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/engine/settings/theory_parameters.h"
#include "experiments/studies/certify/attack.h"
#include "sim/model/scaled_weights.h"
#include "sim/numerics/number_format.h"
#include "theory/certify/certificate.h"

namespace periscope::certify {

/// The certificates of a stack: of exact arithmetic, and of runs in formats.
struct Certificates {
  theory::Certificate exact = {};
  std::vector<theory::Certificate> runs = {};

  /// Returns `exact` for a format without runs.
  [[nodiscard]] const theory::Certificate& in(const NumberFormat& format) const;
};

/// The factors by which a stack's stream and branches can be scaled in a number format.
struct FormatHeadroom {
  NumberFormat format;
  double stream;            ///< largest power of two c with which every class of the scaled stack is certified, or NaN
  double branch;            ///< largest power of two k with that c; NaN without norms B, or without a c
  double measured;          ///< largest c with which `margin` times the measured maximum fits; NaN without measurement
  StackScale fitting;       ///< powers of two with which the stream and the branches alone fit; stream 0: unbounded
  std::string reason = {};  ///< why no c is certified; "" if one is
};

/// A scaled stack compared with the original, in f64 on the same tokens.
struct ScaledRun {
  StackScale scale;
  int tokens = 0;
  double difference = 0.0;         ///< max |Δ logit| / max |logit|
  double without_eps = 0.0;        ///< the same with ε = 0 in both: rounding alone
  double gains_alone = 0.0;        ///< the same as `difference` if only gains and the embedding are scaled
  ModelSpec model;                 ///< of the scaled stack
  Certificates certificates = {};  ///< of it
};

/// T17 for stacks whose stream is scaled by c, and branches before norms B by k, with the function kept.
struct Headroom {
  static constexpr double margin = 4.0;
  static constexpr int most_doublings = 40;  ///< c and k are between 2^-40 and 2^40

  ScaleRecipe recipe;
  std::vector<FormatHeadroom> formats;  ///< of every judged format; empty if the stack cannot be scaled
  std::optional<ScaledRun> run;
};

/// Returns why the stack cannot be scaled. Requires !can_scale(model).
std::string why_unscalable(const ModelSpec& model);

/// Certifies the scaled stack in the arithmetic of `like`, a certificate of the stack itself.
using CertifyScaled = std::function<theory::Certificate(const StackScale& scale, const theory::Certificate& like)>;

/// Judges `formats` by usually one to three, at most about ten calls of `certify_at` each. `measured` may be null.
Headroom headroom_of(const ModelSpec& model, const Certificates& certificates, std::span<const NumberFormat> formats,
                     const SignalMaxima* measured, const CertifyScaled& certify_at,
                     TableFactor embedding = TableFactor::scale);

/// Requires weights in f64; messages call them by `names`.
CertifyScaled certify_scaled(const StackContext& context, const theory::InputDomain& domain,
                             config::EntryNames names = {});

/// Scales the stack, runs both on `ids`, and certifies the scaled one in each arithmetic of `certificates`.
ScaledRun run_scaled(const StackContext& context, const StackScale& scale, std::span<const int> ids,
                     const Certificates& certificates, const CertifyScaled& certify_at);

}  // namespace periscope::certify
