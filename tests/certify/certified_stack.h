#pragma once

#include <string>

#include "experiments/studies/certify/attack.h"
#include "sim/model/weights.h"
#include "theory/certify/certificate.h"

namespace periscope::testing {

/// Another source's weights with N(0, scale²) added to the bias of every matrix that is no table.
class BiasedWeights final : public WeightSource {
 public:
  BiasedWeights(const Backend& backend, const WeightSource& source, double scale)
      : backend_(backend), source_(source), scale_(scale) {}

  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override {
    return source_.rows(ops, table, ids);
  }

 private:
  const Backend& backend_;
  const WeightSource& source_;
  double scale_;
};

/// True for signals inside ops, which only emulated runs record.
inline bool is_of_arithmetic(Signal signal) { return signal >= Signal::dots && signal <= Signal::denominators; }

/// A measured magnitude in units of its bound, the largest of all features of all signals.
struct Tightness {
  double worst = 0.0;
  std::string where;
};

/// Compares every feature of every signal; one that the certificate or the measurement does not have counts as
/// infinitely wrong. What only the insides of ops store is not measured.
Tightness compare(const theory::Certificate& certificate, const certify::SignalMaxima& maxima);

}  // namespace periscope::testing
