#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "tests/gradient/loss_problem.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/edited_weights.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/stack_table.h"
#include "tests/support/threads.h"
#include "tests/support/tolerances.h"

/// Gradients of whole stacks on every backend.
namespace periscope::testing {
namespace {

/// Calls body(name, values of a, values of b) for every gradient, the input and the loss.
template <class Body>
void for_all(const Gradients& a, const Gradients& b, const Body& body) {
  REQUIRE(a.parameters.size() == b.parameters.size());
  for (const auto& [name, values] : b.parameters) body(name, a.parameters.at(name), values);
  for (const auto& [place, values] : b.site) {
    body("sublayer " + std::to_string(place.first) + " site " + std::to_string(static_cast<int>(place.second)),
         a.site.at(place), values);
  }
  body("input", a.input, b.input);
  body("loss", std::vector<double>{a.loss}, std::vector<double>{b.loss});
}

void check_against_reference(const std::string& name, StackSpec spec) {
  spec.input.kind = InputKind::tokens;
  const LossProblem problem = loss_problem(spec, 7);
  const Gradients expected = gradients_of(truth_target(), problem);
  for (const Target& target : targets()) {
    const Gradients actual = gradients_of(target, problem);
    // Rounding occurs in every sublayer of both passes, and in the parameters.
    const double relative = stack_error(2 * spec.model.sublayers(), spec.model.query_width(0), target.dtype);
    for_all(actual, expected, [&](const std::string& what, const auto& a, const auto& b) {
      check_close_to_scale(target.name() + " " + name + ", " + what, a, b, relative);
    });
  }
}

TEST_CASE("gradients of every kind of stack on every backend equal the reference") {
  for (const NamedStack& stack : stacks_of_every_kind()) check_against_reference(stack.name, stack.spec);
}

/// Roundings to a narrow dtype have independent signs: 24 per sublayer in both passes give √(24 S)·u per entry. Five
/// times this exceeds the largest error of a few thousand entries.
double narrow_error(int sublayers, DType dtype) { return 5.0 * std::sqrt(24.0 * sublayers) * unit_roundoff(dtype); }

TEST_CASE("both passes in bf16 and f16 equal the reference up to rounding") {
  for (const std::string_view placement : {"pre", "peri", "post", "residual-dual"}) {
    StackSpec spec = placed(tiny_stack(), placement);
    spec.model.qk_norm = QkNorm::head;
    spec.input.kind = InputKind::tokens;
    const LossProblem problem = loss_problem(spec, 7);
    const Gradients expected = gradients_of(truth_target(), problem);
    for (const Target& target : narrow_targets()) {
      const Gradients actual = gradients_of(target, problem);
      double worst = 0.0;
      for_all(actual, expected, [&](const std::string& what, const auto& a, const auto& b) {
        const double relative = narrow_error(spec.model.sublayers(), target.dtype);
        check_close_to_scale(target.name() + " " + std::string(placement) + ", " + what, a, b, relative);
        const double largest = std::abs(*std::ranges::max_element(b, {}, [](double v) { return std::abs(v); }));
        worst = std::max(worst, residual(a, b, unit_roundoff(target.dtype) * largest).worst);
      });
      CHECK(worst > 1.0);  // large errors show that the narrow dtype is used
    }
  }
}

TEST_CASE("both passes give the same bits for 1, 2 and 3 threads" * doctest::test_suite("slow")) {
  StackSpec spec = placed(tiny_stack(), "residual-dual");
  spec.model.width = 130;
  spec.model.heads = 6;
  spec.model.kv_heads = 3;
  spec.model.head_dim = 34;
  spec.model.mlp_width = 515;
  spec.model.vocab = 301;
  spec.model.qk_norm = QkNorm::head;
  spec.input.tokens = 67;
  spec.input.kind = InputKind::tokens;
  validate(spec);
  const LossProblem problem = loss_problem(spec, 8);
  for (const Target& target : targets()) {
    const auto run = [&](int count) {
      const Threads threads(count);
      return gradients_of(target, problem);
    };
    const Gradients alone = run(1);
    for (const int count : {2, 3}) {
      for_all(run(count), alone, [&](const std::string& what, const auto& a, const auto& b) {
        check_same_bits(target.name() + " " + what + ", threads " + std::to_string(count), a, b);
      });
    }
  }
}

TEST_CASE("both passes together generate every matrix twice and the unembedding once, for any memory budget") {
  const LossProblem problem = loss_problem(placed(tiny_stack(), "peri"), 9);
  const Target target = truth_target();
  const ResidentWeights source = weights_of(target, problem);
  for (const std::size_t budget : {std::size_t{0}, std::size_t{1} << 30U}) {
    std::map<std::pair<int, Weight>, int> counts;
    const auto count_matrix = [&](int layer, Weight weight, const Tensor& w) {
      ++counts[{layer, weight}];
      return w;
    };
    const EditedWeights weights(source, count_matrix, same_norm);
    const StackContext context{truth(), problem.spec.model, weights};
    StackTape tape;
    tape.budget = budget;
    const Tensor input = truth().from_host(5, 12, DType::f64, problem.input);
    const Tensor output = stack_forward(context, input, {}, &tape).output;
    stack_backward(tape, loss_of(context, output, problem.labels).gradient);
    CHECK(counts.size() == 2 * 7 + 1);
    for (const auto& [place, count] : counts) CHECK(count == (place.second == Weight::unembedding ? 1 : 2));
  }
}

TEST_CASE("gradients have the same bits for any memory budget of the forward pass") {
  for (const std::string_view placement : {"peri", "post", "residual-dual"}) {
    const LossProblem problem = loss_problem(placed(tiny_stack(), placement), 9);
    const Target target = truth_target();
    const ResidentWeights weights = weights_of(target, problem);
    const StackContext context{truth(), problem.spec.model, weights};
    const Tensor input = truth().from_host(5, 12, DType::f64, problem.input);
    int saved = 0;
    const auto gradient_with = [&](std::size_t budget) {
      StackTape tape;
      tape.budget = budget;
      const Tensor output = stack_forward(context, input, {}, &tape).output;
      saved = static_cast<int>(std::ranges::count_if(tape.passes, [](const auto& pass) { return pass != nullptr; }));
      return truth().to_host(stack_backward(tape, loss_of(context, output, problem.labels).gradient));
    };
    const std::vector<double> recomputed = gradient_with(0);
    CHECK(saved == 0);
    check_same_bits("all passes saved", gradient_with(std::size_t{1} << 30U), recomputed);
    CHECK(saved == 4);
    check_same_bits("first and last pass saved", gradient_with(5'000), recomputed);
    CHECK(saved == 2);
    check_same_bits("last pass saved", gradient_with(1), recomputed);
    CHECK(saved == 1);
  }
}

}  // namespace
}  // namespace periscope::testing
