#include "experiments/app/tools/toy_vector.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "sim/reference/backend.h"

namespace periscope::app {
namespace {

class Toy {
 public:
  Toy() : ops_(make_reference_backend()), gain_(ops_->constant(1, 3, DType::f64, 1.0)) {}

  [[nodiscard]] Tensor input() const { return ops_->from_host(1, 3, DType::f64, std::vector<double>{2, 0, -2}); }
  [[nodiscard]] Tensor norm(const Tensor& x) const { return ops_->norm(NormKind::layer, x, gain_, {}, 0.0); }
  [[nodiscard]] Tensor add(const Tensor& x, const Tensor& y) const { return ops_->axpby(1.0, x, 1.0, y); }

  [[nodiscard]] ToyStep step(std::string formula, const Tensor& x, std::vector<double> reviewed = {},
                             double reviewed_deviation = 0.0) const {
    const RowMoments m = ops_->row_moments(x);
    return {.formula = std::move(formula),
            .value = ops_->to_host(x),
            .mean = m[Statistic::mean][0],
            .variance = m[Statistic::variance][0],
            .standard_deviation = std::sqrt(m[Statistic::variance][0]),
            .reviewed_value = std::move(reviewed),
            .reviewed_deviation = reviewed_deviation};
  }

 private:
  std::unique_ptr<Backend> ops_;
  Tensor gain_;
};

/// A printed number of two decimals stands for anything within half a unit of its last place; a full unit
/// also forgives truncation.
bool off(double printed, double computed) { return std::abs(printed - computed) > 0.01; }

std::string rows(const std::string& title, const std::vector<ToyStep>& steps) {
  std::string text = title + "\n";
  for (const ToyStep& s : steps) {
    text += fmt::format("  {:<22} [{:7.4f}]  mean {:7.4f}  variance {:7.4f}  sigma {:7.4f}", s.formula,
                        fmt::join(s.value, ", "), s.mean, s.variance, s.standard_deviation);
    text += '\n';
    if (s.reviewed_value.empty()) continue;
    text += fmt::format("  {:>22} [{:7.2f}  ]", "the reviews print", fmt::join(s.reviewed_value, "  , "));
    if (s.reviewed_deviation > 0.0) text += fmt::format("{:>38} {:5.2f}", "sigma", s.reviewed_deviation);
    if (s.review_is_wrong()) text += "  WRONG";
    text += '\n';
  }
  return text;
}

nlohmann::ordered_json steps_json(const std::vector<ToyStep>& steps) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ToyStep& s : steps) {
    nlohmann::ordered_json step{{"step", s.formula},
                                {"value", s.value},
                                {"mean", s.mean},
                                {"variance", s.variance},
                                {"standard_deviation", s.standard_deviation}};
    if (!s.reviewed_value.empty()) step["reviews_value"] = s.reviewed_value;
    if (s.reviewed_deviation > 0.0) step["reviews_standard_deviation"] = s.reviewed_deviation;
    step["reviews_wrong"] = s.review_is_wrong();
    list.push_back(step);
  }
  return list;
}

}  // namespace

bool ToyStep::review_is_wrong() const {
  if (reviewed_deviation > 0.0 && off(reviewed_deviation, standard_deviation)) return true;
  for (std::size_t i = 0; i < reviewed_value.size(); ++i) {
    if (off(reviewed_value[i], value[i])) return true;
  }
  return false;
}

ToyVector toy_vector() {
  const Toy toy;
  const Tensor x = toy.input();
  const Tensor a = toy.norm(x);
  const Tensor b = toy.norm(a);
  const Tensor sum = toy.add(x, a);
  return {.peri = {toy.step("x", x), toy.step("A: Norm(x)", a), toy.step("f: identity", a), toy.step("B: Norm(f)", b),
                   toy.step("x + B", toy.add(x, b))},
          .reviews = {toy.step("x", x, {2, 0, -2}), toy.step("A: Norm(x)", a, {1.22, 0, -1.22}, 1.0),
                      toy.step("f: identity", a, {1.22, 0, -1.22}), toy.step("r = x + f", sum, {3.22, 0, -3.22}, 2.35),
                      toy.step("C: Norm(r)", toy.norm(sum), {1.37, 0, -1.37})}};
}

std::string toy_table(const ToyVector& toy) {
  const double reviewed = toy.reviews.back().reviewed_value[0];
  return rows("The paper's Peri-LN, x + Norm(f(Norm(x))): the stream grows, by 1 + 2 sigma, as x and B are parallel",
              toy.peri) +
         rows("The reviews' version, Norm(x + f(Norm(x))), which is placement a+c: the variance is 1", toy.reviews) +
         fmt::format(
             "The reviews divide by a standard deviation of 2.35; it is {:.4f}.\n"
             "Their output [{:.2f}, 0, {:.2f}] would have variance {:.4f}, not 1.\n",
             toy.reviews[3].standard_deviation, reviewed, -reviewed, 2.0 * reviewed * reviewed / 3.0);
}

nlohmann::ordered_json toy_json(const ToyVector& toy) {
  return {{"peri", steps_json(toy.peri)}, {"reviews", steps_json(toy.reviews)}};
}

}  // namespace periscope::app
