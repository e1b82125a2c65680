#pragma once

#include "sim/measure/extremes_probe.h"
#include "sim/measure/gradient_probe.h"
#include "sim/measure/growth_probe.h"
#include "sim/measure/model_reading.h"
#include "sim/measure/probe.h"

namespace periscope {

/// The probes that fill a ModelReading, whoever shows them the signals: a pass of ours, or one recorded elsewhere.
struct ModelProbes {
  ModelProbes(const StackContext& context, int top);

  /// All of them as recorders of one pass; points into this object.
  [[nodiscard]] Hooks hooks();
  /// What they saw; `backward`: also of gradients. The reading's losses and tensors are left as they are.
  void take_into(const StackContext& context, bool backward, ModelReading& reading);

  Probe probe;
  GrowthProbe growth;
  ExtremesProbe extremes;
  GradientProbe gradients;
};

}  // namespace periscope
