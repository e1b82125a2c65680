#include "sim/checkpoint/checkpoint.h"

#include "tests/support/doctest.h"

#include <filesystem>
#include <numeric>

#include "experiments/engine/settings/theory_parameters.h"
#include "experiments/studies/certify/attack.h"
#include "experiments/studies/certify/certify.h"
#include "sim/checkpoint/checkpoint_weights.h"
#include "tests/certify/certified_stack.h"
#include "tests/support/targets.h"

/// The certificate on stored models of every family.
namespace periscope::testing {
namespace {

TEST_CASE("every family: tokens, and a search for worse ones, stay below the certificate; scaling keeps the logits") {
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FIXTURES)) {
    if (!std::filesystem::exists(entry.path() / "config.json")) continue;
    ++models;
    INFO(entry.path().filename().string());
    const Checkpoint checkpoint(entry.path().string());
    const ModelSpec& m = checkpoint.model();
    for (const Target& target : targets()) {
      if (target.dtype != DType::f64) continue;
      const CheckpointWeights weights(*target.backend, checkpoint, target.dtype);
      const StackContext c{.ops = *target.backend, .model = m, .weights = weights};
      const theory::InputDomain tokens;
      const theory::Certificate certificate =
          theory::certify(m, config::TheoryParameters(*target.backend, m, weights), tokens);
      std::vector<int> ids(6);
      std::iota(ids.begin(), ids.end(), 0);
      certify::SignalMaxima maxima;
      maxima.add(c, ids);
      for (const certify::SignalPlace& place : certify::attack_places(certificate)) {
        certify::attack(c, certificate, place, tokens, {.steps = 10, .restarts = 2, .tokens = 5, .seed = 1}, maxima);
      }
      const Tightness t = compare(certificate, maxima);
      INFO(t.where);
      CHECK(t.worst <= 1.0 + 1e-11);
      // The largest row of the embedding's table is one of those that were run, so its bound is exact. How tight the
      // others are attained_test says, on weights that attain them.
      for (int id = 0; id < m.vocab; ++id) maxima.add(c, std::vector<int>{id});
      const theory::SignalBound& rows = *certificate.find(Signal::embedding, -1);
      for (Eigen::Index k = 0; k < rows.magnitude.size(); ++k) {
        const double most = maxima.find(Signal::embedding, -1)->at(static_cast<std::size_t>(k));
        CHECK(most == doctest::Approx(rows.magnitude[k]).epsilon(1e-12));
      }

      if (!can_scale(m)) continue;
      const theory::Certificate exact;
      const certify::ScaledRun run =
          certify::run_scaled(c, {.stream = 0.125, .branch = 0.5}, ids, {exact}, certify::certify_scaled(c, {}));
      CHECK(run.without_eps < 1e-12);
      CHECK(run.difference < 0.05);
      if (!recipe_of(m).gains_alone) CHECK(run.gains_alone > 1e-3);
    }
  }
  CHECK(models >= 10);
}

TEST_CASE("a Llama in pure FP16 is not certified: 4096 roundings of an average's sum add up") {
  const Checkpoint checkpoint(std::string(FIXTURES) + "/llama");
  const CheckpointWeights weights(truth(), checkpoint, DType::f64);
  const config::TheoryParameters parameters(truth(), checkpoint.model(), weights);
  const NumberFormat& fp16 = number_formats[2];
  for (const int longest : {16, theory::default_longest}) {
    CAPTURE(longest);
    const theory::Certificate c =
        theory::certify(checkpoint.model(), parameters, {}, run_arithmetic(Arithmetic::pure, fp16), longest);
    const theory::Verdict all = theory::verdict(c, std::nullopt);
    CHECK(all.certified == (longest == 16));
    if (!all.certified) CHECK(all.first->signal == Signal::squares);  // of what such averages put on the stream
    // Weights may sum to 1 + (n − 1)u, and an average's own sum is off by nearly as much of that.
    const double stalled = 1.0 + (longest - 1.0) * fp16.unit_roundoff();
    for (const int layer : {0, 1}) {
      const double most = c.find(Signal::v, 2 * layer)->largest;
      CHECK(c.find(Signal::mixed, 2 * layer)->largest >= stalled * stalled * most);
      CHECK(c.find(Signal::mixed, 2 * layer)->largest <= 1.01 * stalled * stalled * most);
    }
  }
}

}  // namespace
}  // namespace periscope::testing
