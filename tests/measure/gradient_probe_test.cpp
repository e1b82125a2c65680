#include "sim/measure/gradient_probe.h"

#include "tests/support/doctest.h"

#include <cmath>
#include <vector>

#include "sim/model/loss.h"
#include "tests/support/recorded_stack.h"

namespace periscope::testing {
namespace {

using Values = std::vector<double>;

/// A probe of two layers that receives hand-made gradients.
class GradientsByHand {
 public:
  explicit GradientsByHand(std::string_view placement)
      : spec_(placed(tiny_stack(), placement)),
        weights_(truth(), spec_, DType::f64, 1),
        context_{truth(), spec_.model, weights_, 1},
        probe_(context_) {}

  static Tensor tensor(const Values& values) {
    return truth().from_host(2, static_cast<Tensor::Index>(values.size()) / 2, DType::f64, values);
  }
  GradientProbe& probe() { return probe_; }
  void add(const ParameterId& parameter, const Tensor& gradient) {
    probe_.on_gradient(parameter,
                       {[&] { return gradient; }, [&] { return truth().measure(gradient, {.squares = true}); }});
  }
  Profile take() {
    Profile profile;
    probe_.take_into(profile);
    return profile;
  }

 private:
  StackSpec spec_;
  GeneratedWeights weights_;
  StackContext context_;
  GradientProbe probe_;
};

TEST_CASE("gradient probe: squares are means over tokens at a signal and sums over a weight; logarithms match") {
  GradientsByHand hand("peri");
  hand.probe().on_signal({-1, Signal::x_out, Pass::backward}, GradientsByHand::tensor({1, 2, 3, 4}));  // (5 + 25)/2
  hand.probe().on_signal({0, Signal::x_out, Pass::backward}, GradientsByHand::tensor({2, 0, 0, 0}));   // 4/2
  hand.probe().on_signal({3, Signal::A_out, Pass::backward}, GradientsByHand::tensor({1, 1, 1, 1}));   // 4/2
  hand.add(matrix_id(1, Weight::down), GradientsByHand::tensor({3, 0, 0, 4}));                         // 25
  hand.add(matrix_id(0, Weight::unembedding), GradientsByHand::tensor({3, 0, 0, 4}));
  const Profile p = hand.take();
  const Values& stream = p.find(Statistic::grad_sq, Signal::x_out)->value;
  REQUIRE(stream.size() == 5);
  CHECK(stream[0] == 15.0);
  CHECK(stream[1] == 2.0);
  CHECK(std::isnan(stream[2]));
  CHECK(p.find(Statistic::log_grad_sq, Signal::x_out)->value[0] == std::log(15.0));
  const Values tokens = hand.probe().token_squares();  // [depth, token]
  REQUIRE(tokens.size() == 10);
  CHECK(Values(tokens.begin(), tokens.begin() + 4) == Values{5, 25, 4, 0});
  CHECK(std::isnan(tokens[4]));
  const Values& inside = p.find(Statistic::grad_sq, Signal::A_out)->value;
  REQUIRE(inside.size() == 4);
  CHECK(inside[3] == 2.0);
  const Values& down = p.find(Statistic::grad_sq, Weight::down)->value;
  REQUIRE(down.size() == 2);
  CHECK(std::isnan(down[0]));
  CHECK(down[1] == 25.0);
  CHECK(p.find(Statistic::log_grad_sq, Weight::down)->value[1] == std::log(25.0));
  CHECK(p.find(Statistic::grad_sq, Weight::unembedding) == nullptr);
  CHECK(p.find(Statistic::grad_sq, Signal::r_out) == nullptr);
}

TEST_CASE("gradient probe: both streams of ResiDual share the gradient at depth 0") {
  GradientsByHand hand("residual-dual");
  hand.probe().on_signal({0, Signal::r_out, Pass::backward}, GradientsByHand::tensor({1, 0, 0, 1}));
  hand.probe().on_signal({-1, Signal::x_out, Pass::backward}, GradientsByHand::tensor({1, 2, 3, 4}));
  const Profile p = hand.take();
  CHECK(p.find(Statistic::grad_sq, Signal::x_out)->value[0] == 15.0);
  CHECK(p.find(Statistic::grad_sq, Signal::r_out)->value[0] == 15.0);
  CHECK(p.find(Statistic::grad_sq, Signal::r_out)->value[1] == 1.0);
}

TEST_CASE("gradient probe: the score share is the share of queries and keys together") {
  GradientsByHand hand("pre");
  hand.probe().on_signal({2, Signal::q_in, Pass::backward}, GradientsByHand::tensor({1, 2, 0, 0}));
  hand.probe().on_signal({2, Signal::k_in, Pass::backward}, GradientsByHand::tensor({0, -2, 0, 3}));  // q+k: 1, 0, 0, 3
  hand.probe().on_signal({2, Signal::v_in, Pass::backward}, GradientsByHand::tensor({5, 1, 2, 0}));
  hand.probe().on_signal({2, Signal::up_in, Pass::backward}, GradientsByHand::tensor({9, 9, 9, 9}));
  CHECK(hand.take().find(Statistic::score_share, Signal::A_out)->value[2] == 10.0 / 40.0);
}

TEST_CASE("gradient probe: a real backward pass gives a positive value in every entry") {
  for (const Placement& placement : placement_table()) {
    CAPTURE(placement.name);
    const StackSpec spec = placed(tiny_stack(), placement.name);
    const GeneratedWeights weights(truth(), spec, DType::f64, 1);
    const StackContext context{truth(), spec.model, weights, 1};
    GradientProbe probe(context);
    backpropagate(context, gaussian_input(truth(), spec, DType::f64, 1), std::vector<int>{1, 2, 3, 4, 5},
                  {.recorders = {&probe}, .gradients = {&probe}});
    Profile p;
    probe.take_into(p);
    CHECK(p.curves.size() == 2 * ((placement.wiring == Wiring::dual) ? 6 : 5) + 1 + 2 * 7);
    const Values& share = p.find(Statistic::score_share, Signal::A_out)->value;
    REQUIRE(share.size() == 4);
    for (const std::size_t l : {0U, 2U}) CHECK((share[l] > 0.0 && share[l] < 1.0));
    for (const std::size_t l : {1U, 3U}) CHECK(std::isnan(share[l]));
    for (const auto& [key, curve] : p.curves) {
      if (key.first == Statistic::score_share) continue;
      if (std::holds_alternative<Weight>(key.second)) CHECK(curve.value.size() == 2);
      if (key.first == Statistic::grad_sq) {  // including a stream of several parts, whose gradients are summed
        const Values& logs = p.find(Statistic::log_grad_sq, key.second)->value;
        REQUIRE(logs.size() == curve.value.size());
        for (std::size_t i = 0; i < logs.size(); ++i) CHECK(logs[i] == std::log(curve.value[i]));
      }
      for (const double v : curve.value) CHECK((key.first == Statistic::grad_sq ? v > 0.0 : std::isfinite(v)));
    }
  }
}

TEST_CASE("the gradients of a module's input through each matrix sum to the gradient of the input") {
  struct Sum final : SignalRecorder {
    void on_signal(const Emission& at, const Tensor& dx) override {
      if (at.pass != Pass::backward) return;
      if (at.signal >= Signal::q_in && at.signal <= Signal::up_in) {
        total = total.empty() ? dx : truth().axpby(1.0, total, 1.0, dx);
      }
      if (at.signal != Signal::A_out) return;
      const Tensor difference = truth().axpby(1.0, total, -1.0, dx);
      for (const double v : truth().to_host(difference)) CHECK(std::abs(v) < 1e-15);
      total = {};
      ++modules;
    }
    Tensor total;
    int modules = 0;
  } sum;
  const StackSpec spec = placed(tiny_stack(), "peri");
  const GeneratedWeights weights(truth(), spec, DType::f64, 1);
  const StackContext context{truth(), spec.model, weights, 1};
  backpropagate(context, gaussian_input(truth(), spec, DType::f64, 1), std::vector<int>{1, 2, 3, 4, 5},
                {.recorders = {&sum}});
  CHECK(sum.modules == 4);
}

}  // namespace
}  // namespace periscope::testing
