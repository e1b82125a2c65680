#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/tolerances.h"
#include "tests/support/twin.h"

namespace periscope::testing {
namespace {

using Index = Tensor::Index;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double unlimited = std::numeric_limits<double>::infinity();

void check_moments(const Target& target, const Twin& x) {
  const RowMoments m = target.backend->row_moments(x.here);
  const RowMoments e = truth().row_moments(x.truth);
  const RowMoments magnitudes = truth().row_moments(magnitude(x.truth));
  const auto n = static_cast<double>(x.truth.cols());
  std::vector<double> mean, second, variance, kurtosis;
  for (std::size_t t = 0; t < e[Statistic::mean].size(); ++t) {
    mean.push_back(mean_error(n, magnitudes[Statistic::mean][t]));
    second.push_back(2.0 * roundings(n + 2, DType::f64) * e[Statistic::second_moment][t]);
    variance.push_back(variance_error(n, e[Statistic::variance][t], magnitudes[Statistic::mean][t]));
    kurtosis.push_back(
        kurtosis_error(n, e[Statistic::kurtosis][t], e[Statistic::variance][t], magnitudes[Statistic::mean][t]));
  }
  check_close(target.name() + " mean", m[Statistic::mean], e[Statistic::mean], mean);
  check_close(target.name() + " second moment", m[Statistic::second_moment], e[Statistic::second_moment], second);
  check_close(target.name() + " variance", m[Statistic::variance], e[Statistic::variance], variance);
  check_close(target.name() + " kurtosis", m[Statistic::kurtosis], e[Statistic::kurtosis], kurtosis);
  check_close(target.name() + " maximum", m[Statistic::maximum], e[Statistic::maximum], 0.0);
}

TEST_CASE("row moments at odd sizes") {
  for (const Target& target : targets()) {
    for (const Index rows : odd_sizes) {
      for (const Index cols : odd_sizes) {
        CAPTURE(rows);
        CAPTURE(cols);
        check_moments(target, normal_twin(target, rows, cols, 40));
      }
    }
  }
}

TEST_CASE("row moments are two-pass: a mean of 1e4 does not hurt the variance") {
  for (const Target& target : targets()) {
    std::vector<double> values = truth().to_host(normal_twin(target, 3, 257, 40).truth);
    for (double& x : values) x += 1e4;
    check_moments(target, twin_of(target, 3, 257, values));
  }
}

TEST_CASE("row moments of a zero row, and of one that is not finite") {
  const std::vector<double> values{0.0, 0.0, 0.0, 1.0, nan, 2.0, unlimited, 1.0, 1.0, -unlimited, 1.0, 2.0};
  for (const Target& target : targets()) check_moments(target, twin_of(target, 4, 3, values));
}

TEST_CASE("the maximum of a row of NaN and numbers is NaN, wherever it stands") {
  for (const Target& target : targets()) {
    for (std::size_t at = 0; at < 33; ++at) {
      std::vector<double> values(33, 1.0);
      values[at] = nan;
      CHECK(std::isnan(target.backend->row_moments(twin_of(target, 1, 33, values).here)[Statistic::maximum][0]));
    }
  }
}

TEST_CASE("row dots at odd sizes, summed in double for every dtype") {
  for (const Target& target : targets()) {
    for (const Index rows : odd_sizes) {
      for (const Index cols : odd_sizes) {
        CAPTURE(rows);
        CAPTURE(cols);
        const Twin x = normal_twin(target, rows, cols, 41);
        const Twin y = normal_twin(target, rows, cols, 42);
        const std::vector<double> bound = truth().row_dots(magnitude(x.truth), magnitude(y.truth));
        check_close(target.name() + " row dots", target.backend->row_dots(x.here, y.here),
                    truth().row_dots(x.truth, y.truth),
                    scaled(dot_error(static_cast<double>(cols), DType::f64), bound));
      }
    }
  }
}

TEST_CASE("token cosine: the closed form is the mean over pairs") {
  for (const Target& target : targets()) {
    for (const Index tokens : odd_sizes) {
      for (const Index cols : {Index{1}, Index{2}, Index{33}}) {
        for (const int sequences : {1, 3}) {
          CAPTURE(tokens);
          CAPTURE(cols);
          CAPTURE(sequences);
          const Twin x = normal_twin(target, sequences * tokens, cols, 43);
          const std::vector<double> actual{target.backend->token_cosine(x.here, sequences)};
          const std::vector<double> expected{truth().token_cosine(x.truth, sequences)};
          CHECK(std::isnan(expected[0]) == (tokens == 1));
          check_close(target.name() + " token cosine", actual, expected,
                      cosine_error(static_cast<double>(cols), static_cast<double>(tokens)));
        }
      }
    }
  }
}

TEST_CASE("token cosine of a zero row is no number") {
  for (const Target& target : targets()) {
    CHECK(
        std::isnan(target.backend->token_cosine(twin_of(target, 3, 2, std::vector<double>{1, 2, 0, 0, 3, 4}).here, 1)));
  }
}

TEST_CASE("top magnitudes: exact, in order, with ties and fewer entries than asked for") {
  for (const Target& target : targets()) {
    for (const Index rows : odd_sizes) {
      for (const int count : {1, 2, 100}) {
        const Twin x = normal_twin(target, rows, 33, 44);
        CHECK(target.backend->top_magnitudes(x.here, count) == truth().top_magnitudes(x.truth, count));
      }
    }
    const Twin ties = twin_of(target, 1, 5, std::vector<double>{-2, 1, 2, -1, 2});
    CHECK(target.backend->top_magnitudes(ties.here, 4) == std::vector<double>{2, 2, 2, 1});
    const Twin infinite = twin_of(target, 1, 3, std::vector<double>{1, -unlimited, 2});
    CHECK(target.backend->top_magnitudes(infinite.here, 2) == std::vector<double>{unlimited, 2});
  }
}

TEST_CASE("top magnitudes of numbers and NaN: a NaN counts as infinite, on the reference too") {
  const std::vector<double> values{3.0, nan, 1.0, 2.0, nan, 5.0};
  const std::vector<double> expected{unlimited, unlimited, 5.0, 3.0};
  CHECK(truth().top_magnitudes(truth().from_host(1, 6, DType::f64, values), 4) == expected);
  for (const Target& target : targets()) {
    CHECK(target.backend->top_magnitudes(twin_of(target, 1, 6, values).here, 4) == expected);
  }
}

TEST_CASE("column maxima: by hand, exact at odd sizes, and a NaN counts as infinite") {
  const std::vector<double> values{1, -5, nan, -2, 4, 3};
  CHECK(truth().column_maxima(truth().from_host(2, 3, DType::f64, values)) == std::vector<double>{2, 5, unlimited});
  for (const Target& target : targets()) {
    CHECK(target.backend->column_maxima(twin_of(target, 2, 3, values).here) == std::vector<double>{2, 5, unlimited});
    for (const Index rows : odd_sizes) {
      for (const Index cols : odd_sizes) {
        const Twin x = normal_twin(target, rows, cols, 48);
        CHECK(target.backend->column_maxima(x.here) == truth().column_maxima(x.truth));
      }
    }
  }
}

TEST_CASE("top entries by hand: places, signs, and ties in the order of rows and columns") {
  const std::vector<double> values{1, -5, 2, 5, 0, -2};
  const std::vector<Entry> expected{{0, 1, -5.0}, {1, 0, 5.0}, {0, 2, 2.0}, {1, 2, -2.0}};
  CHECK(truth().top_entries(truth().from_host(2, 3, DType::f64, values), 4) == expected);
  for (const Target& target : targets()) {
    CHECK(target.backend->top_entries(twin_of(target, 2, 3, values).here, 4) == expected);
    CHECK(target.backend->top_entries(twin_of(target, 2, 3, values).here, 100).size() == 6);
  }
}

TEST_CASE("top entries of random numbers, and of numbers many of which are equal") {
  for (const Target& target : targets()) {
    for (const Index rows : odd_sizes) {
      for (const int count : {1, 2, 100}) {
        const Twin x = normal_twin(target, rows, 33, 45);
        CHECK(target.backend->top_entries(x.here, count) == truth().top_entries(x.truth, count));
        std::vector<double> coarse = truth().to_host(x.truth);
        for (double& v : coarse) v = std::round(v);
        const Twin ties = twin_of(target, rows, 33, coarse);
        CHECK(target.backend->top_entries(ties.here, count) == truth().top_entries(ties.truth, count));
      }
    }
  }
}

TEST_CASE("top entries and the median take a NaN for the largest") {
  const std::vector<double> values{3.0, nan, 1.0, unlimited};
  const auto check = [&](const Backend& ops, const Tensor& x) {
    const std::vector<Entry> top = ops.top_entries(x, 3);
    REQUIRE(top.size() == 3);
    CHECK((top[0].row == 0 && top[0].col == 1 && std::isnan(top[0].value)));
    CHECK(top[1] == Entry{1, 1, unlimited});
    CHECK(top[2] == Entry{0, 0, 3.0});
    CHECK(ops.median_magnitude(x) == unlimited);
  };
  check(truth(), truth().from_host(2, 2, DType::f64, values));
  for (const Target& target : targets()) check(*target.backend, twin_of(target, 2, 2, values).here);
}

TEST_CASE("median magnitude: by hand, and at odd sizes") {
  CHECK(truth().median_magnitude(truth().from_host(1, 3, DType::f64, std::vector<double>{-7, 1, 2})) == 2.0);
  CHECK(truth().median_magnitude(truth().from_host(2, 2, DType::f64, std::vector<double>{-7, 1, 2, -4})) == 3.0);
  for (const Target& target : targets()) {
    for (const Index rows : odd_sizes) {
      for (const Index cols : odd_sizes) {
        const Twin x = normal_twin(target, rows, cols, 46);
        CHECK(target.backend->median_magnitude(x.here) == truth().median_magnitude(x.truth));
      }
    }
  }
}

TEST_CASE("a record's slots stay what they are over several fetches, measured here or elsewhere") {
  const Tensor x = truth().from_host(2, 2, DType::f64, std::vector<double>{1, 2, 3, 4});
  const Tensor y = truth().from_host(1, 2, DType::f64, std::vector<double>{5, 6});
  StatisticsRecord record(truth());
  const auto first = record.measure(x, {.squares = true});
  record.fetch();
  const auto second = record.squares(truth().measure(y, {.squares = true}));
  const auto third = record.measure(y, {.moments = true});
  record.fetch();
  CHECK(record[first].squares == std::vector<double>{5, 25});
  CHECK(record[second].squares == std::vector<double>{61});
  CHECK(record[third].rows[Statistic::mean] == std::vector<double>{5.5});
  CHECK_THROWS_AS((void)record[third + 1], std::out_of_range);
}

TEST_CASE("token losses: by hand, unlabelled rows, and their mean is the cross-entropy") {
  const std::vector<double> values{0, 0, 0, std::log(3.0), 1e4, -1e4};
  const std::vector<int> labels{1, 0, 1};
  const std::vector<double> by_hand = truth().token_losses(truth().from_host(3, 2, DType::f64, values), labels);
  check_close("by hand", by_hand, std::vector<double>{std::log(2.0), std::log(4.0), 2e4}, 1e-11);
  for (const Target& target : targets()) {
    const Twin logits = normal_twin(target, 33, 257, 47, 3.0);
    std::vector<int> some(33);
    for (std::size_t t = 0; t < some.size(); ++t) some[t] = t % 4 == 3 ? no_label : static_cast<int>(7 * t);
    const std::vector<double> losses = target.backend->token_losses(logits.here, some);
    const std::vector<double> expected = truth().token_losses(logits.truth, some);
    // Σexp and its logarithm: within the roundings of 257 terms, each exponential within a few of a difference of 20.
    check_close(target.name() + " token losses", losses, expected, 400.0 * unit_roundoff(DType::f64) * 20.0);
    double sum = 0.0;
    for (std::size_t t = 0; t < some.size(); ++t) {
      CHECK(std::isnan(losses[t]) == (some[t] == no_label));
      if (some[t] != no_label) sum += losses[t];
    }
    check_close(target.name() + " mean", std::vector<double>{sum / 25.0},
                std::vector<double>{target.backend->cross_entropy(logits.here, some).loss}, 1e-12);
  }
}

}  // namespace
}  // namespace periscope::testing
