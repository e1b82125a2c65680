#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/app/command.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/tools/tools.h"
#include "sim/reference/backend.h"

namespace periscope::app {
namespace {

/// One step of the toy example, with the numbers printed in the reviews of the Peri-LN paper.
struct ToyStep {
  std::string formula;
  Tensor x;
  std::vector<double> reviewed = {};  ///< empty if the reviews print no vector
  double reviewed_deviation = 0.0;    ///< standard deviation; 0 if the reviews print none
};

/// Returns true if a number printed with two decimals is wrong, allowing for rounding and truncation.
bool is_misprint(double printed, double computed) { return std::abs(printed - computed) > 0.01; }

nlohmann::ordered_json steps_json(const Backend& ops, const std::vector<ToyStep>& steps) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ToyStep& s : steps) {
    const RowMoments moments = ops.row_moments(s.x);
    const std::vector<double> value = ops.to_host(s.x);
    const double deviation = std::sqrt(moments[Statistic::variance][0]);  // population standard deviation
    nlohmann::ordered_json& step = list.emplace_back();
    step = {{"step", s.formula},
            {"value", value},
            {"mean", moments[Statistic::mean][0]},
            {"variance", moments[Statistic::variance][0]},
            {"standard_deviation", deviation}};
    bool is_wrong = s.reviewed_deviation > 0.0 && is_misprint(s.reviewed_deviation, deviation);
    for (std::size_t i = 0; i < s.reviewed.size(); ++i) is_wrong = is_wrong || is_misprint(s.reviewed[i], value[i]);
    if (!s.reviewed.empty()) step["reviews_value"] = s.reviewed;
    if (s.reviewed_deviation > 0.0) step["reviews_standard_deviation"] = s.reviewed_deviation;
    step["reviews_wrong"] = is_wrong;
  }
  return list;
}

/// Passes x = [2, 0, −2] through one sublayer whose module is the identity (claims F5, F6), with ε = 0 and gain 1, on
/// the reference backend. "peri" is the paper's Peri-LN; "reviews" is the placement A+C that the reviews call Peri-LN.
nlohmann::ordered_json toy_json() {
  const std::unique_ptr<Backend> ops = make_reference_backend();
  const Tensor gain = ops->constant(1, 3, DType::f64, 1.0);
  const auto norm = [&](const Tensor& x) { return ops->norm(NormKind::layer, x, gain, {}, 0.0); };
  const Tensor x = ops->from_host(1, 3, DType::f64, std::vector<double>{2, 0, -2});
  const Tensor a = norm(x);
  const Tensor b = norm(a);
  const Tensor sum = ops->axpby(1.0, x, 1.0, a);
  return {{"peri", steps_json(*ops, {{"x", x},
                                     {"A: Norm(x)", a},
                                     {"f: identity", a},
                                     {"B: Norm(f)", b},
                                     {"x + B", ops->axpby(1.0, x, 1.0, b)}})},
          {"reviews", steps_json(*ops, {{"x", x, {2, 0, -2}},
                                        {"A: Norm(x)", a, {1.22, 0, -1.22}, 1.0},
                                        {"f: identity", a, {1.22, 0, -1.22}},
                                        {"r = x + f", sum, {3.22, 0, -3.22}, 2.35},
                                        {"C: Norm(r)", norm(sum), {1.37, 0, -1.37}}})}};
}

std::string rows(const std::string& title, const nlohmann::ordered_json& steps) {
  std::string text = title + "\n";
  for (const nlohmann::ordered_json& s : steps) {
    const auto number = [&](const char* name) { return s.at(name).get<double>(); };
    const auto numbers = [&](const char* name) { return s.at(name).get<std::vector<double>>(); };
    text += fmt::format("  {:<22} [{:7.4f}]  mean {:7.4f}  variance {:7.4f}  sigma {:7.4f}\n",
                        s.at("step").get<std::string>(), fmt::join(numbers("value"), ", "), number("mean"),
                        number("variance"), number("standard_deviation"));
    if (!s.contains("reviews_value")) continue;
    text += fmt::format("  {:>22} [{:7.2f}  ]", "the reviews print", fmt::join(numbers("reviews_value"), "  , "));
    if (s.contains("reviews_standard_deviation")) {
      text += fmt::format("{:>38} {:5.2f}", "sigma", number("reviews_standard_deviation"));
    }
    text += s.at("reviews_wrong").get<bool>() ? "  WRONG\n" : "\n";
  }
  return text;
}

std::string toy_text(const nlohmann::ordered_json& toy) {
  const double deviation = toy.at("reviews").at(3).at("standard_deviation");
  const double output = toy.at("reviews").back().at("reviews_value").front();
  return rows(
             "The paper's Peri-LN, x + Norm(f(Norm(x))): the stream's variance grows by 1 + 2 sigma, because x and B "
             "are parallel",
             toy.at("peri")) +
         rows("The reviews' version, Norm(x + f(Norm(x))), placement a+c: the variance is 1", toy.at("reviews")) +
         fmt::format(
             "The reviews divide by a standard deviation of 2.35; the correct value is {:.4f}.\nTheir output [{:.2f}, "
             "0, {:.2f}] would have variance {:.4f}, not 1.\n",
             deviation, output, -output, 2.0 * output * output / 3.0);
}

}  // namespace

void add_toy(CLI::App& app, int& code) {
  add_command(app, code, "toy", "Pass the vector [2, 0, -2] through Peri-LN and its version in the paper's reviews",
              no_run, [](const CommonOptions& options) {
                const nlohmann::ordered_json toy = toy_json();
                if (!options.quiet) print_message(toy_text(toy));
                if (options.json) print_json(toy);
                return ExitCode::ok;
              });
}

}  // namespace periscope::app
