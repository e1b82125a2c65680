#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/studies/verify/verify.h"
#include "sim/base/first_exception.h"

namespace periscope::verify {

void Tally::add(std::uint64_t id, const StatementOutcome& o, bool is_broken) {
  ++cases;
  if (is_broken && violations++ == 0) first_violation = id;
  if (o.is_trivial()) {
    ++trivial;
    return;
  }
  if (!o.is_resolved()) {
    ++unresolved;
    return;
  }
  const double ratio = o.violates(1.0) ? o.ratio() : std::min(o.ratio(), 1.0);  // what rounding explains is no excess
  const double last = static_cast<double>(histogram.size()) - 1.0;
  const double bin = ratio > 0.0 ? std::ceil((std::log10(ratio) - lowest) * per_decade) - 1.0 : 0.0;
  ++histogram[static_cast<std::size_t>(std::clamp(std::isnan(bin) ? last : bin, 0.0, last))];
  if (ratio > largest || (ratio == largest && !largest_case)) {
    largest = ratio;
    largest_case = id;
  }
}

std::uint64_t Tally::ratios() const { return std::reduce(histogram.begin(), histogram.end()); }

double Tally::quantile(double q) const {
  const std::uint64_t all = ratios();
  if (all == 0) return std::numeric_limits<double>::quiet_NaN();
  const double wanted = q * static_cast<double>(all);
  std::uint64_t below = 0;
  std::size_t i = 0;
  while (i + 1 < histogram.size() && static_cast<double>(below + histogram[i]) < wanted) below += histogram[i++];
  const double share = (wanted - static_cast<double>(below)) / std::max(1.0, static_cast<double>(histogram[i]));
  const double bin = static_cast<double>(i) + std::clamp(share, 0.0, 1.0);
  return std::min(std::pow(10.0, lowest + bin / per_decade), largest);
}

std::string_view StatementResult::verdict() const {
  if (violations > 0) return statement->should_hold() ? "violated" : "refuted";
  if (cases == trivial) return "no case";
  return statement->should_hold() ? "holds" : "not refuted";
}

std::vector<double> StatementResult::limits() const {
  std::vector<double> all;
  for (std::size_t i = 1; i <= by_width.size(); ++i) all.push_back(statement->limit(static_cast<int>(i)));
  return all;
}

std::vector<StatementResult> random_cases(const VerifyConfig& config, stacks::Progress& progress) {
  constexpr int widths = 64, bins_per_decade = 30, chunk = 2000;
  std::vector<StatementResult> results;
  for (const Statement& s : statements()) {
    results.push_back({Tally(), &s, std::vector(widths, Tally(bins_per_decade))});
  }
  progress.begin("verify", config.cases);
  for (int begin = 0; begin < config.cases; begin += chunk) {
    progress.throw_if_stop_requested();
    const auto first = static_cast<std::uint32_t>(begin);
    const auto count = static_cast<std::uint32_t>(std::min(chunk, config.cases - begin));
    std::vector<std::pair<std::size_t, std::vector<StatementOutcome>>> cases(count);  // width and outcomes
    FirstException failure;
#pragma omp parallel for schedule(dynamic, 16)
    for (std::uint32_t i = 0; i < count; ++i) {
      failure.run([&] {
        const BoundCase c = generate_case(config.seed, first + i);
        cases[i] = {c.size(Dimension::feature), check_statements(c, evaluate(c))};
      });
    }
    failure.rethrow();
    for (std::uint32_t i = 0; i < count; ++i) {
      for (const StatementOutcome& o : cases[i].second) {
        StatementResult& result = results[static_cast<std::size_t>(o.statement - statements().data())];
        result.add(first + i, o, o.is_broken(config.scale));
        result.by_width[cases[i].first - 1].add(first + i, o, o.is_broken(config.scale));
      }
    }
    progress.step("random cases", static_cast<int>(count));
  }
  return results;
}

}  // namespace periscope::verify
