#include <algorithm>
#include <filesystem>

#include "experiments/engine/settings/theory_parameters.h"
#include "experiments/studies/certify/signal_maxima.h"
#include "sim/checkpoint/checkpoint.h"
#include "sim/checkpoint/checkpoint_weights.h"
#include "tests/emulated/backend.h"
#include "tests/soundness/held_weights.h"
#include "tests/support/doctest.h"
#include "tests/support/targets.h"
#include "theory/certify/certificate.h"

/// Stored models of every family, run in number formats, against certificates of the stored weights.
namespace periscope::testing {
namespace {

/// Weights of another source, rounded to a format once and cached.
class RoundedWeights final : public WeightSource {
 public:
  RoundedWeights(const WeightSource& source, const NumberFormat& format) : source_(source), format_(format) {}
  [[nodiscard]] SublayerWeights fetch(int sublayer) const override {
    SublayerWeights all = source_.fetch(sublayer);
    for (auto& [weight, linear] : all.linear) {
      const ParameterId id = matrix_id(sublayer / 2, weight);
      linear.map = dense_map([this, id, map = linear.map] { return cached(map->dense(), id); });
      linear.bias = cached(linear.bias, bias_of(id));
    }
    for (auto& [weight, norm] : all.norms) {
      const ParameterId id = gain_id(sublayer, weight);
      norm = {cached(norm.gain, id), cached(norm.bias, bias_of(id))};
    }
    return all;
  }

 private:
  Tensor cached(const Tensor& x, const ParameterId& id) const {
    if (x.empty()) return x;
    Tensor& here = cached_[id];
    if (here.empty()) here = round_to_stored(truth(), x, format_);
    return here;
  }
  const WeightSource& source_;
  NumberFormat format_;
  mutable std::map<ParameterId, Tensor> cached_;
};

TEST_CASE("every family, mixed and pure in every format: stored signals stay below the certificate's bounds") {
  int models = 0;
  int held = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FIXTURES)) {
    if (!std::filesystem::exists(entry.path() / "config.json")) continue;
    ++models;
    INFO(entry.path().filename().string());
    const Checkpoint checkpoint(entry.path().string());
    const ModelSpec& m = checkpoint.model();
    const CheckpointWeights stored(truth(), checkpoint, DType::f64);
    const config::TheoryParameters parameters(truth(), m, stored);
    for (const Arithmetic kind : {Arithmetic::mixed, Arithmetic::pure}) {
      for (const NumberFormat& format : number_formats) {
        const RunArithmetic arithmetic = run_arithmetic(kind, format);
        INFO(arithmetic_names[static_cast<std::size_t>(kind)], " ", format.name);
        const theory::Certificate certificate = theory::certify(m, parameters, {}, arithmetic);
        const RoundedWeights weights(stored, format);
        certify::SignalMaxima seen;
        for (int run = 0; run < 2; ++run) {
          certify::InnerLog log;
          const Emulation emulation{.arithmetic = arithmetic,
                                    .order = run == 0 ? SumOrder::sequential : SumOrder::positives_first,
                                    .norm = run == 0 ? NormForm::stored_then_gain : NormForm::accumulated,
                                    .fused = run == 1};
          const auto ops = make_emulated_backend(truth(), emulation, &log);
          const std::vector<int> ids{1, 2, 3, 0, 5 % m.vocab};
          seen.add({.ops = *ops, .model = m, .weights = weights}, ids, &log);
        }
        // Up to the first bound that its format does not hold; what follows is not claimed.
        for (const theory::SignalBound& b : certificate.bounds) {
          if (!(b.largest <= certificate.limit(b))) break;
          const std::vector<double>* maxima = seen.find(b.signal, b.sublayer);
          if (maxima == nullptr) continue;
          INFO(name_of(b.signal), " ", b.sublayer);
          REQUIRE(static_cast<Eigen::Index>(maxima->size()) == b.magnitude.size());
          for (Eigen::Index k = 0; k < b.magnitude.size(); ++k) {
            CHECK((*maxima)[static_cast<std::size_t>(k)] <= b.magnitude[k]);
            ++held;
          }
        }
      }
    }
  }
  CHECK(models >= 10);
  CHECK(held > 10000);
}

}  // namespace
}  // namespace periscope::testing
