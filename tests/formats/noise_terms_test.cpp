#include <cmath>
#include <vector>

#include "experiments/engine/run/stacks.h"
#include "experiments/studies/formats/format_pass.h"
#include "sim/measure/gradient_probe.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "sim/model/stack.h"
#include "tests/formats/stack.h"
#include "tests/support/doctest.h"

/// The terms of T27, one by one.
namespace periscope::testing {
namespace {

using formats::FormatsConfig;

/// A pass in f64 with its gradients, and T27 for what a configuration holds in BF16.
struct ExactPass {
  FormatsConfig config;
  formats::DeviationProbe truth;
  Profile gradients;

  explicit ExactPass(const FormatsConfig& c) : config(c), truth(quick(), config.base.model) {
    const GeneratedWeights weights(quick(), config.base, DType::f64, 0);
    const StackContext context{.ops = quick(), .model = config.base.model, .weights = weights};
    std::vector<int> labels;
    for (int t = 0; t < config.base.input.tokens; ++t) labels.push_back(t * 5 % config.base.model.vocab);
    GradientProbe of_weights(context);
    (void)backpropagate(context, gaussian_input(quick(), config.base, DType::f64, 0), labels,
                        {.recorders = {&truth}, .gradients = {&of_weights}});
    of_weights.take_into(gradients);
  }

  /// Σ (Q(x) − x)² g² of one signal.
  [[nodiscard]] double term(Signal signal, int l) const {
    const Rounding round(find_tensor_format("bf16")->floating);
    const std::vector<double>& x = truth.at({Pass::forward, signal}, l);
    const std::vector<double>& g = truth.at({Pass::backward, signal}, l);
    REQUIRE(x.size() == g.size());
    REQUIRE(!x.empty());
    double sum = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow((round(x[i]) - x[i]) * g[i], 2.0);
    return sum;
  }
  /// What the terms behind sublayer l are, from the SQNR that is predicted there.
  [[nodiscard]] double predicted_sum(const std::vector<std::string>& covers, int l) {
    config.covers = covers;
    config.rest = "fp32";
    const formats::FormatChoice choice = formats::format_choice_for(config, *find_tensor_format("bf16"), 0);
    const double sqnr = formats::predicted_sqnr(quick(), config.base, truth, gradients, choice, {}, {})
                            .at(static_cast<std::size_t>(l + 1));
    const auto square = [&](Pass pass) {
      double sum = 0.0;
      for (const double v : truth.at({pass, Signal::x_out}, l)) sum += v * v;
      return sum;
    };
    const double entries = config.base.input.tokens * config.base.model.width;
    return square(Pass::forward) * square(Pass::backward) / entries * std::pow(10.0, -0.1 * sqnr);
  }
};

TEST_CASE("T27: every rounding once, those of rotated projections and of norm C's sum twice") {
  for (const char* placement : {"pre", "peri", "post"}) {
    for (const bool rope : {true, false}) {
      FormatsConfig config = small_config(placement, {"bf16"});
      config.base.model.rope = rope;
      ExactPass pass(config);
      const std::string name = placement;
      std::vector<std::pair<std::vector<std::string>, double>> by_part{
          {{"stream"}, pass.term(Signal::x_out, -1)}, {{"norms"}, 0.0}, {{"modules"}, 0.0}, {{"inputs"}, 0.0}};
      for (int l = 0; l < config.base.model.sublayers(); ++l) {
        by_part[0].second += (name == "post" ? 2.0 : 1.0) * pass.term(Signal::x_out, l);
        if (name != "post") by_part[1].second += pass.term(Signal::A_out, l);
        if (name == "peri") by_part[1].second += pass.term(Signal::B_out, l);
        std::vector<Signal> once{Signal::gate, Signal::up, Signal::hidden, Signal::f_out};
        if (l % 2 == 0) {
          once = {Signal::v, Signal::mixed, Signal::f_out};
          for (const Signal s : {Signal::q, Signal::k}) by_part[2].second += (rope ? 2.0 : 1.0) * pass.term(s, l);
        }
        for (const Signal s : once) by_part[2].second += pass.term(s, l);
        by_part[3].second += pass.term(Signal::A_out, l) + pass.term(l % 2 == 0 ? Signal::mixed : Signal::hidden, l);
        for (const auto& part : by_part) {
          if (part.second == 0.0) continue;  // Post-LN's norms
          const std::string covered = part.first.front();
          INFO(placement, ", rope ", rope, ", ", covered, " behind ", l);
          CHECK(pass.predicted_sum(part.first, l) / part.second == doctest::Approx(1.0).epsilon(1e-9));
        }
        // What norms and modules hold is not rounded again by the matrices that read it; the stream, in FP32, is.
        const double again = pass.predicted_sum({"norms", "modules", "inputs"}, l);
        double read = by_part[1].second + by_part[2].second;
        for (int i = 0; name == "post" && i <= l; ++i) read += pass.term(Signal::A_out, i);
        CHECK(again / read == doctest::Approx(1.0).epsilon(1e-9));
      }
    }
  }
}

}  // namespace
}  // namespace periscope::testing
