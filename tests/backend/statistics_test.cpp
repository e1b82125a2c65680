#include <cmath>
#include <limits>
#include <utility>
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
    second.push_back(2.0 * rounding_bound(n + 2, DType::f64) * e[Statistic::second_moment][t]);
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

TEST_CASE("row moments match the reference for odd sizes, means far above the spread, zero and non-finite rows") {
  for (const Target& target : targets()) {
    for (const Index rows : odd_sizes) {
      for (const Index cols : odd_sizes) {
        INFO("rows := ", rows, ", cols := ", cols);
        check_moments(target, normal_twin(target, rows, cols, 40));
      }
    }
    // A mean of 1e4 must not affect the variance, since moments are computed in two passes.
    std::vector<double> values = truth().to_host(normal_twin(target, 3, 257, 40).truth);
    for (double& x : values) x += 1e4;
    check_moments(target, twin_of(target, 3, 257, values));
    const std::vector<double> special{0.0, 0.0, 0.0, 1.0, nan, 2.0, unlimited, 1.0, 1.0, -unlimited, 1.0, 2.0};
    check_moments(target, twin_of(target, 4, 3, special));
    for (std::size_t at = 0; at < 33; ++at) {
      values.assign(33, 1.0);
      values[at] = nan;
      CHECK(std::isnan(target.backend->row_moments(twin_of(target, 1, 33, values).here)[Statistic::maximum][0]));
    }
  }
}

TEST_CASE("row dots match the reference for odd sizes and accumulate in double for every dtype") {
  for (const Target& target : targets()) {
    for (const Index rows : odd_sizes) {
      for (const Index cols : odd_sizes) {
        INFO("rows := ", rows, ", cols := ", cols);
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

TEST_CASE("token cosine: the closed form equals the mean over pairs; a zero row gives NaN") {
  for (const Target& target : targets()) {
    const Twin zero_row = twin_of(target, 3, 2, std::vector<double>{1, 2, 0, 0, 3, 4});
    CHECK(std::isnan(target.backend->statistics_of(zero_row.here, {.cosine_of_sequences = 1}).token_cosine));
    for (const Index tokens : odd_sizes) {
      for (const Index cols : {Index{1}, Index{2}, Index{33}}) {
        for (const int sequences : {1, 3}) {
          INFO("tokens := ", tokens, ", cols := ", cols, ", sequences := ", sequences);
          const Twin x = normal_twin(target, sequences * tokens, cols, 43);
          const StatisticsRequest request{.cosine_of_sequences = sequences};
          const std::vector<double> actual{target.backend->statistics_of(x.here, request).token_cosine};
          const std::vector<double> expected{truth().statistics_of(x.truth, request).token_cosine};
          CHECK(std::isnan(expected[0]) == (tokens == 1));
          check_close(target.name() + " token cosine", actual, expected,
                      cosine_error(static_cast<double>(cols), static_cast<double>(tokens)));
        }
      }
    }
  }
}

void check_selections(const Target& target, const Twin& x) {
  for (const int count : {1, 2, 100}) {
    const StatisticsRequest request{
        .top_magnitudes = count, .top_entries = count, .median_magnitude = true, .column_maxima = true};
    const SignalStatistics here = target.backend->statistics_of(x.here, request);
    const SignalStatistics there = truth().statistics_of(x.truth, request);
    CHECK(here.top_magnitudes == there.top_magnitudes);
    CHECK(here.top_entries == there.top_entries);
    CHECK(here.median_magnitude == there.median_magnitude);
    CHECK(here.column_maxima == there.column_maxima);
  }
}

TEST_CASE("row moments of rows that do not fit into a GPU's shared memory match the reference") {
  for (const Target& target : targets_of_every_dtype()) {
    check_moments(target, normal_twin(target, 2, 20480 / static_cast<Index>(size_of(target.dtype)) + 3, 40));
  }
}

std::vector<Target> all_targets() {
  std::vector<Target> all = targets_of_every_dtype();
  all.push_back(truth_target());
  return all;
}

TEST_CASE("selections, median and column maxima are exact for random and for tied numbers") {
  for (const Target& target : all_targets()) {
    for (const Index rows : {Index{1}, Index{5}, Index{65}}) {
      for (const Index cols : {Index{1}, Index{31}, Index{33}, Index{257}, Index{4099}}) {
        const Twin x = normal_twin(target, rows, cols, 44);
        check_selections(target, x);
        std::vector<double> coarse = truth().to_host(x.truth);
        for (double& v : coarse) v = std::round(v);
        check_selections(target, twin_of(target, rows, cols, coarse));
      }
    }
  }
}

TEST_CASE("selections order ties by row and column and count NaN as infinite") {
  for (const Target& target : all_targets()) {
    CAPTURE(target.name());
    const auto select = [&](Index rows, Index cols, const std::vector<double>& values) {
      const StatisticsRequest request{
          .top_magnitudes = 4, .top_entries = 3, .median_magnitude = true, .column_maxima = true};
      return target.backend->statistics_of(twin_of(target, rows, cols, values).here, request);
    };
    const SignalStatistics ties = select(2, 3, {1, -5, 2, 5, 0, -2});
    CHECK(ties.top_magnitudes == std::vector<double>{5, 5, 2, 2});
    CHECK(ties.top_entries == std::vector<Entry>{{0, 1, -5.0}, {1, 0, 5.0}, {0, 2, 2.0}});
    CHECK(ties.median_magnitude == 2.0);
    CHECK(ties.column_maxima == std::vector<double>{5, 5, 2});
    CHECK(select(2, 2, {-7, 1, 2, -4}).median_magnitude == 3.0);
    const SignalStatistics with_nan = select(2, 2, {3.0, nan, 1.0, -unlimited});
    CHECK(with_nan.top_magnitudes == std::vector<double>{unlimited, unlimited, 3.0, 1.0});
    REQUIRE(with_nan.top_entries.size() == 3);
    CHECK((with_nan.top_entries[0].row == 0 && std::isnan(with_nan.top_entries[0].value)));
    CHECK(with_nan.top_entries[1] == Entry{1, 1, -unlimited});
    CHECK(with_nan.median_magnitude == unlimited);
    CHECK(with_nan.column_maxima == std::vector<double>{3.0, unlimited});
    CHECK(target.backend->column_maxima(twin_of(target, 1, 2, std::vector<double>{nan, -3}).here) ==
          std::vector<double>{unlimited, 3});
  }
}

TEST_CASE("selections with several sequences, other numbers of entries than magnitudes, and ranks among NaN rows") {
  for (const Target& target : all_targets()) {
    const Twin x = normal_twin(target, 3 * 67, 33, 45);
    for (const auto& [magnitudes, entries] : {std::pair{2, 300}, std::pair{300, 2}, std::pair{0, 30}}) {
      const StatisticsRequest request{
          .cosine_of_sequences = 3, .top_magnitudes = magnitudes, .top_entries = entries, .column_maxima = true};
      const SignalStatistics here = target.backend->statistics_of(x.here, request);
      const SignalStatistics there = truth().statistics_of(x.truth, request);
      CHECK(here.top_magnitudes == there.top_magnitudes);
      CHECK(here.top_entries == there.top_entries);
      CHECK(here.column_maxima == there.column_maxima);
    }
    const Twin rows = twin_of(target, 2, 2, std::vector<double>{1.0, unlimited, nan, 3.0});
    CHECK(target.backend->statistics_of(rows.here, {.top_magnitudes = 2}).top_magnitudes ==
          std::vector<double>{unlimited, unlimited});
    // Buffers of the first selection are used again by the second one.
    (void)target.backend->statistics_of(target.backend->constant(2, 4, target.dtype, 1.0), {.top_magnitudes = 2});
    const Twin few = twin_of(target, 2, 4, std::vector<double>{0, 0, 8, 0, 0, 0, 0, 4});
    CHECK(target.backend->statistics_of(few.here, {.top_magnitudes = 2}).top_magnitudes == std::vector<double>{8, 4});
  }
}

TEST_CASE("a StatisticsRecord returns the results of all fetches") {
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

}  // namespace
}  // namespace periscope::testing
