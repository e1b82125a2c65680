#include "sim/measure/observer_group.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "sim/measure/gradient_probe.h"
#include "sim/measure/model_reading.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "tests/support/recorded_stack.h"

/// A group hands every signal to each of its members. The members here name every function of the interface, which has
/// no defaults: a new one does not compile before it stands here too.
namespace periscope::testing {
namespace {

using Calls = std::vector<std::string>;

std::string call(std::string_view function, int where, int which, const Tensor& x, const Tensor& y = {}) {
  std::string text = fmt::format("{} {} {}", function, where, which);
  for (const Tensor& t : {x, y}) {
    if (!t.empty()) text += fmt::format(" {}", truth().to_host(t)[0]);
  }
  return text;
}

class Listener final : public Observer {
 public:
  void on_input(const Tensor& x) override { calls.push_back(call("input", 0, 0, x)); }
  void on_site(int sublayer, Signal site, const Tensor& x) override {
    calls.push_back(call("site", sublayer, static_cast<int>(site), x));
  }
  void on_inside(int sublayer, Signal place, const Tensor& x) override {
    calls.push_back(call("inside", sublayer, static_cast<int>(place), x));
  }
  Calls calls;
};

class GradientListener final : public GradientObserver {
 public:
  void on_input(const Tensor& dx) override { calls.push_back(call("input", 0, 0, dx)); }
  void on_site(int sublayer, Signal site, const Tensor& dx) override {
    calls.push_back(call("site", sublayer, static_cast<int>(site), dx));
  }
  void on_weight(int layer, Weight weight, const Tensor& dw) override {
    calls.push_back(call("weight", layer, static_cast<int>(weight), dw));
  }
  void on_bias(int layer, Weight weight, const Tensor& dbias) override {
    calls.push_back(call("bias", layer, static_cast<int>(weight), dbias));
  }
  void on_weight_input(int layer, Weight weight, const Tensor& dx) override {
    calls.push_back(call("weight_input", layer, static_cast<int>(weight), dx));
  }
  void on_norm(int sublayer, NormSite site, const Tensor& dgain, const Tensor& dbias) override {
    calls.push_back(call("norm", sublayer, static_cast<int>(site), dgain, dbias));
  }
  Calls calls;
};

Tensor number(double value) { return truth().constant(1, 1, DType::f64, value); }

/// Calls every function of an observer once, each with numbers of its own.
void tell_everything(Observer& o) {
  o.on_input(number(1.0));
  o.on_site(2, Signal::f_out, number(2.0));
  o.on_inside(3, Signal::hidden, number(3.0));
}

void tell_everything(GradientObserver& o) {
  o.on_input(number(1.0));
  o.on_site(2, Signal::f_out, number(2.0));
  o.on_weight(3, Weight::k, number(3.0));
  o.on_bias(4, Weight::o, number(4.0));
  o.on_weight_input(5, Weight::up, number(5.0));
  o.on_norm(6, NormSite::b, number(6.0), number(7.0));
}

TEST_CASE("every callback of a forward pass reaches every member of a group") {
  Listener alone, first, second;
  tell_everything(alone);
  ObserverGroup group({&first, &second});
  tell_everything(group);
  CHECK(alone.calls.size() == 3);
  CHECK(first.calls == alone.calls);
  CHECK(second.calls == alone.calls);
}

TEST_CASE("every callback of a backward pass reaches every member of a group") {
  GradientListener alone, first, second;
  tell_everything(alone);
  GradientObserverGroup group({&first, &second});
  tell_everything(group);
  CHECK(alone.calls.size() == 6);
  CHECK(first.calls == alone.calls);
  CHECK(second.calls == alone.calls);
}

TEST_CASE("a model's reading has every gradient that a probe alone records, the score path's share too") {
  StackSpec spec = placed(tiny_stack(), "peri");
  spec.input.kind = InputKind::tokens;
  const GeneratedWeights weights(truth(), spec, DType::f64, 1);
  const StackContext context{truth(), spec.model, weights, 1};
  const ModelPass pass{.ids = {3, 1, 4, 1, 5}, .labels = {1, 4, 1, 5, 9}, .backward = true};
  const Profile read = read_model(context, pass).reading.profile;
  GradientProbe probe(context);
  IdleObserver nobody;
  backpropagate(context, embedding_forward(context, pass.ids), pass.labels, nobody, probe);
  Profile alone;
  probe.take_into(alone);
  REQUIRE(alone.find(Statistic::score_share, Signal::A_out) != nullptr);
  for (const auto& [key, curve] : alone.curves) {
    const Curve* found = read.find(key.first, key.second);
    REQUIRE(found != nullptr);
    REQUIRE(found->value.size() == curve.value.size());
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      CHECK((found->value[i] == curve.value[i] || (std::isnan(found->value[i]) && std::isnan(curve.value[i]))));
    }
  }
  CHECK(read.weight_curves.size() == alone.weight_curves.size());
}

}  // namespace
}  // namespace periscope::testing
