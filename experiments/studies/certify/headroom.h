#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/studies/certify/signal_maxima.h"
#include "sim/model/scaled_weights.h"
#include "sim/numerics/number_format.h"
#include "theory/certify/certificate.h"

namespace periscope::certify {

/// The headroom that certified or measured signals leave in a number format, and the factors that bring them into it.
struct FormatHeadroom {
  NumberFormat format;
  double stream;    ///< largest c with which every signal that grows with c is certified; above 1: they are already
  double branch;    ///< largest k likewise; NaN without norms B
  double measured;  ///< largest c with which what was measured fits, `margin` times over; NaN if nothing was
};

/// The run of a scaled stack beside the original, in f64 on the same tokens.
struct ScaledRun {
  StackScale scale;
  int tokens = 0;
  double difference = 0.0;                     ///< max |Δ logit| / max |logit|
  double without_eps = 0.0;                    ///< the same with ε = 0 in both: what is left is rounding
  double gains_alone = 0.0;                    ///< the same as `difference` if only gains and the embedding are scaled
  ModelSpec model;                             ///< of the scaled stack
  theory::Certificate certificate;             ///< of it, in exact arithmetic
  std::vector<theory::Certificate> runs = {};  ///< and in runs' arithmetics
};

/// The headroom advisor: T17 for stacks whose stream is scaled by c, and branches before norms B by k, with the
/// function kept.
struct Headroom {
  static constexpr double margin = 4.0;

  bool possible = false;
  ScaleRecipe recipe;
  double stream_bound = 0.0;     ///< the largest bound of what grows with c
  double branch_bound = 0.0;     ///< the largest bound of what grows with k; 0 without norms B
  double stream_measured = 0.0;  ///< NaN if nothing was measured
  std::vector<FormatHeadroom> formats;
  std::optional<ScaledRun> run;
};

/// `measured` may be null. A format is judged by the certificate of a run in it, if there is one, else by that of exact
/// arithmetic.
Headroom headroom_of(const ModelSpec& model, const theory::Certificate& certificate, const SignalMaxima* measured,
                     std::span<const theory::Certificate> runs = {});

/// Scales the stack of `context`, whose weights are in f64, runs both on `ids`, and certifies the scaled one, also in
/// the arithmetics of `runs`.
ScaledRun run_scaled(const StackContext& context, const StackScale& scale, std::span<const int> ids,
                     std::span<const theory::Certificate> runs = {});

}  // namespace periscope::certify
