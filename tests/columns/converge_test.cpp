#include "experiments/studies/widths/converge.h"

#include <limits>

#include "tests/columns/expected_columns.h"
#include "tests/support/doctest.h"

/// A planted result of converge: every column from the raw numbers.
namespace periscope::testing::converge_columns {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

struct Planted {
  converge::ConvergeConfig config;
  converge::ConvergeResult result;
};

/// Three fits: whole; without a verdict on its bias; without any.
Planted planted() {
  Planted p;
  p.config.base.model = {.layers = 1, .width = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .mlp_width = 8};
  p.config.base.input.tokens = 3;
  p.config.inputs = {InputKind::gaussian};
  p.config.placements = {*find_placement("pre"), *find_placement("post")};
  p.config.widths = {8, 16, 24};
  const std::vector<StackSpec> specs = p.config.stacks();
  Irregular numbers;
  for (std::size_t k = 0; k < 3; ++k) {
    converge::Convergence& c = p.result.fits.emplace_back();
    c.spec = specs[k / 2];
    if (k == 2) c.spec.input.kind = InputKind::tokens;
    c.statistic = k == 1 ? Statistic::token_cosine : Statistic::second_moment;
    c.width = {8.0, 16.0, 24.0};
    c.bias = numbers.next(3);
    c.bias_error = numbers.next(3);
    c.seeds = k == 2 ? std::vector<double>{1.0} : std::vector<double>{1.0, 2.0, 4.0};
    c.noise = numbers.next(c.seeds.size());
    c.noise_error = numbers.next(c.seeds.size());
    for (judge::PowerLaw* fit : {&c.bias_fit, &c.noise_fit}) {
      *fit = {numbers.next(), numbers.next(), numbers.next(), numbers.next(), numbers.next()};
    }
    c.bias_verdict = k == 0 ? judge::Verdict::disagrees : judge::Verdict::not_checked;
    c.noise_verdict = k == 0   ? judge::Verdict::agrees
                      : k == 1 ? judge::Verdict::inconclusive
                               : judge::Verdict::not_checked;
    if (k > 0) c.bias_reason = "because";
    if (k == 1) c.remedy = "more";
  }
  return p;
}

}  // namespace

TEST_CASE("converge: every column from raw numbers") {
  const Planted p = planted();
  const auto& fits = p.result.fits;
  ExpectedColumns expected(converge::schema(), converge::dataset_of(p.config, p.result));
  expected.words("placement", {"pre", "pre", "post"}, "fits/*/placement");
  expected.words("input", {"gaussian", "gaussian", "tokens"}, "fits/*/input");
  expected.words("statistic", {"second_moment", "token_cosine", "second_moment"}, "fits/*/statistic");
  expected.numbers("width", {8, 16, 24}, "coordinates/width");
  expected.numbers("group", {1, 2, 4}, "coordinates/group");
  expected.words("weights", {"dense", "dense", "dense"}, "weights");
  const auto joined = [&](const std::vector<double> converge::Convergence::*values, std::size_t length) {
    std::vector<double> all;
    for (const converge::Convergence& c : fits) {
      std::vector<double> row = c.*values;
      row.resize(length, nan);
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  };
  expected.numbers("bias", joined(&converge::Convergence::bias, 3), "fits/*/bias");
  expected.numbers("bias_stderr", joined(&converge::Convergence::bias_error, 3), "fits/*/bias_stderr");
  expected.numbers("noise", joined(&converge::Convergence::noise, 3), "fits/*/noise");
  expected.numbers("noise_stderr", joined(&converge::Convergence::noise_error, 3), "fits/*/noise_stderr");
  expected.words("bias_reason", {"", "because", "because"}, "fits/*/bias_reason");
  expected.words("remedy", {"", "more", ""}, "fits/*/remedy");
  expected.words("bias_verdict", {"disagrees", "not-checked", "not-checked"}, "fits/*/bias_fit/verdict");
  expected.words("noise_verdict", {"agrees", "inconclusive", "not-checked"}, "fits/*/noise_fit/verdict");
  // Of fits that tell nothing there is no number.
  struct Part {
    const char *column, *json;
    double judge::PowerLaw::*value;
  };
  for (const Part& part : {Part{"exponent", "exponent", &judge::PowerLaw::exponent},
                           {"exponent_stderr", "exponent_error", &judge::PowerLaw::exponent_error},
                           {"amplitude", "amplitude", &judge::PowerLaw::amplitude},
                           {"chi_squared", "chi_squared", &judge::PowerLaw::chi_squared},
                           {"significance", "significance", &judge::PowerLaw::significance}}) {
    const std::string column(part.column);
    expected.numbers("bias_" + column, {fits[0].bias_fit.*part.value, nan, nan},
                     std::string("fits/*/bias_fit/") + part.json);
    expected.numbers("noise_" + column, {fits[0].noise_fit.*part.value, fits[1].noise_fit.*part.value, nan},
                     std::string("fits/*/noise_fit/") + part.json);
  }
  expected.complete();
}

}  // namespace periscope::testing::converge_columns
