#include <doctest/doctest.h>

#include <string>

#include "sim/model/primitives.h"
#include "tests/gradient/loss_problem.h"
#include "tests/support/finite_difference.h"
#include "tests/support/recorded_stack.h"

/// Gradients of signals inside the stack against finite differences: a signal is moved, and the pass goes on from
/// there. With two streams the one that is not moved stays.
namespace periscope::testing {
namespace {

using Values = std::vector<double>;

/// The two streams between sublayers.
struct Streams {
  Tensor x;
  Tensor r;  ///< empty if there is one
};

class Continuation {
 public:
  explicit Continuation(const LossProblem& problem)
      : problem_(problem), weights_(target_, problem), context_{truth(), problem.spec.model, weights_, 1} {}

  /// Streams before sublayer l.
  [[nodiscard]] Streams before(int l) const {
    const ModelSpec& m = problem_.spec.model;
    Tensor x = tensor(problem_.input);
    if (m.embedding_norm) x = norm_forward(context_, 0, NormSite::embedding, x);
    Streams s{x, m.placement.two_streams ? x : Tensor{}};
    for (int i = 0; i < l; ++i) s = passed(i, s, sublayer_forward(context_, i, s.x).b_out);
    return s;
  }

  [[nodiscard]] Values signal(int l, Signal site) const {
    const Streams s = before(l);
    const SublayerSignals signals = sublayer_forward(context_, l, s.x);
    switch (site) {
      case Signal::x_in: return truth().to_host(s.x);
      case Signal::A_out: return truth().to_host(signals.a_out);
      case Signal::f_out: return truth().to_host(signals.f_out);
      case Signal::B_out: return truth().to_host(signals.b_out);
      case Signal::x_out: return truth().to_host(signals.x_out);
      case Signal::r_out: return truth().to_host(passed(l, s, signals.b_out).r);
      default: return {};
    }
  }

  /// The loss if the signal has these values.
  [[nodiscard]] double loss_with(int l, Signal site, const Values& values) const {
    Streams s = before(l);
    const Tensor moved = tensor(values);
    if (site == Signal::x_in) {
      s.x = moved;
      s = passed(l, s, sublayer_forward(context_, l, s.x).b_out);
    } else if (site == Signal::x_out || site == Signal::r_out) {
      s = passed(l, s, sublayer_forward(context_, l, s.x).b_out);
      (site == Signal::x_out ? s.x : s.r) = moved;
    } else {
      s = passed(l, s, branch_from(l, site, moved));
    }
    for (int i = l + 1; i < problem_.spec.model.sublayers(); ++i) {
      s = passed(i, s, sublayer_forward(context_, i, s.x).b_out);
    }
    return loss_of_output(s);
  }

 private:
  [[nodiscard]] Tensor tensor(const Values& values) const {
    return truth().from_host(problem_.spec.input.tokens, problem_.spec.model.width, DType::f64, values);
  }
  /// The branch of sublayer l when the signal at A_out, f_out or B_out is `x`.
  [[nodiscard]] Tensor branch_from(int l, Signal site, Tensor x) const {
    if (site == Signal::A_out) x = l % 2 == 0 ? attention_forward(context_, l / 2, x) : mlp_forward(context_, l / 2, x);
    if (site != Signal::B_out && problem_.spec.model.rule(l).norm_b) x = norm_forward(context_, l, NormSite::b, x);
    return x;
  }
  /// T1's last steps: both streams after sublayer l.
  [[nodiscard]] Streams passed(int l, const Streams& s, const Tensor& branch) const {
    const SublayerRule rule = problem_.spec.model.rule(l);
    Tensor x = truth().axpby(rule.alpha, s.x, rule.beta, branch);
    if (rule.norm_c) x = norm_forward(context_, l, NormSite::c, x);
    return {x, s.r.empty() ? Tensor{} : truth().axpby(1.0, s.r, rule.beta, branch)};
  }
  [[nodiscard]] double loss_of_output(const Streams& s) const {
    const ModelSpec& m = problem_.spec.model;
    Tensor top = s.r.empty() ? s.x : s.r;
    if (m.final_norm) top = norm_forward(context_, m.sublayers(), NormSite::final, top);
    if (!s.r.empty()) top = truth().axpby(1.0, s.x, 1.0, top);
    return truth().cross_entropy(logits_forward(context_, top), problem_.labels).loss;
  }

  const LossProblem& problem_;
  Target target_ = truth_target();
  ParameterWeights weights_;
  StackContext context_;
};

void check_sites(const std::string& what, const StackSpec& spec) {
  const LossProblem problem = loss_problem(spec, 6);
  const Gradients g = gradients_of(truth_target(), problem);
  const Continuation stack(problem);
  const std::size_t sites = spec.model.placement.two_streams ? 6 : 5;
  REQUIRE(g.site.size() == sites * static_cast<std::size_t>(spec.model.sublayers()));
  for (const auto& [place, gradient] : g.site) {
    const auto [l, site] = place;
    check_gradient(what + ", sublayer " + std::to_string(l) + " " + std::string(name_of(site)),
                   {.loss =
                        [&, l = l, site = site](std::span<const double> v) {
                          return stack.loss_with(l, site, {v.begin(), v.end()});
                        },
                    .point = stack.signal(l, site),
                    .gradient = gradient,
                    .loss_error = loss_rounding(problem, g.loss),
                    .step = step_for(spec.model)},
                   1, 2);
  }
}

TEST_CASE("every site of every sublayer, in every placement") {
  for (const Placement& placement : placement_table()) {
    StackSpec spec = placed(tiny_stack(), placement.name);
    if (placement.name == "mix") spec.model.layers = 4;
    spec.model.embedding_norm = true;
    check_sites(std::string(placement.name), spec);
  }
}

TEST_CASE("ResiDual: the gradient at depth 0 is that of both streams, above it that of the Post stream alone") {
  const StackSpec spec = placed(tiny_stack(), "residual-dual");
  const Gradients g = gradients_of(truth_target(), loss_problem(spec, 6));
  const Values& post = g.site.at({0, Signal::x_in});
  const Values& second = g.site.at({0, Signal::r_out});
  for (std::size_t i = 0; i < post.size(); ++i) CHECK(g.depth_zero[i] == post[i] + second[i]);
  for (int l = 1; l < spec.model.sublayers(); ++l) {
    CHECK(g.site.at({l, Signal::r_out}) == second);
    CHECK(g.site.at({l, Signal::x_in}) == g.site.at({l - 1, Signal::x_out}));
  }
  CHECK(g.input == g.depth_zero);  // no embedding norm
}

}  // namespace
}  // namespace periscope::testing
