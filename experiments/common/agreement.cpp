#include "experiments/common/agreement.h"

#include <fmt/format.h>

#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <utility>

namespace periscope {
namespace {

constexpr int fewest_seeds = 4;

constexpr std::pair<Statistic, Site> compared[] = {
    {Statistic::second_moment, Site::x_out}, {Statistic::variance, Site::x_out},
    {Statistic::token_cosine, Site::x_out},  {Statistic::second_moment, Site::f_out},
    {Statistic::token_cosine, Site::f_out},  {Statistic::second_moment, Site::r_out},
};

double combined(double a, double b) { return std::sqrt(a * a + b * b); }

/// Why a comparison cannot be judged, or "".
std::string obstacle(const Comparison& c) {
  if (!c.prediction.refusal.empty()) return c.prediction.refusal;
  if (c.diverged_seeds > 0) return fmt::format("{} of {} seeds diverged", c.diverged_seeds, c.seeds);
  if (c.seeds < fewest_seeds) return fmt::format("{} seeds; a verdict needs {}", c.seeds, fewest_seeds);
  return {};
}

/// Rounding of one pass through the stack, relative to the value: each of the 2L sublayers adds a few
/// roundings of its dtype, and statistics average over many entries.
double rounding(DType dtype) {
  return 100.0 * (dtype == DType::f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon());
}

/// The cells of one curve; `allowance` of an entry and its prediction.
template <class Allowance>
void add_cells(std::vector<Cell>& cells, const Cell& prototype, const Curve* measured, const Curve* predicted,
               const Allowance& allowance) {
  if (measured == nullptr || predicted == nullptr) return;
  for (std::size_t i = 0; i < measured->value.size(); ++i) {
    if (std::isnan(predicted->value[i])) continue;  // no such thing, as the token cosine of one token
    Cell cell = prototype;
    cell.index = static_cast<int>(i);
    cell.measured = measured->value[i];
    cell.measured_error = measured->standard_error[i];
    cell.predicted = predicted->value[i];
    cell.predicted_error = predicted->standard_error[i];
    cell.allowance = allowance(i, cell);
    cells.push_back(cell);
  }
}

std::vector<Cell> cells_of(const Comparison& c, const AgreementOptions& options) {
  std::vector<Cell> cells;
  const theory::Prediction& prediction = c.prediction;
  for (const auto& [statistic, site] : compared) {
    const bool cosine = statistic == Statistic::token_cosine;
    const bool module = site == Site::f_out;
    add_cells(cells, {.statistic = statistic, .site = site}, c.measured.find(statistic, site),
              prediction.profile.find(statistic, site), [&](std::size_t i, const Cell& cell) {
                // What attention puts out is an average of values: its size is their overlap, a cosine.
                const bool overlap = cosine || (module && ModelSpec::is_attention(static_cast<int>(i)));
                const double constant = overlap ? options.finite_width_cosine : options.finite_width;
                const double scale = cosine ? 1.0 : std::abs(cell.predicted);
                if (prediction.exact_at_width_for(cell.statistic, cell.site)) return rounding(c.dtype) * scale;
                return (constant * prediction.finite_width[i + (module ? 1 : 0)] + rounding(c.dtype)) * scale;
              });
  }
  const auto way_and_back = [&](std::size_t depth) {
    return options.finite_width_gradient * (2.0 * prediction.finite_width.back() - prediction.finite_width[depth]);
  };
  const auto variance = [&](const Cell& cell) { return c.seeds * cell.measured_error * cell.measured_error; };
  const auto gradient_allowance = [&](std::size_t depth, const Cell& cell) {
    return way_and_back(depth) + variance(cell) / 2.0 + rounding(c.dtype);
  };
  add_cells(cells, {.statistic = Statistic::log_grad_sq}, c.measured.find(Statistic::log_grad_sq, Site::x_out),
            prediction.profile.find(Statistic::log_grad_sq, Site::x_out), gradient_allowance);
  // A share p = S/(S+V): the logarithm of S/V has a gradient's allowances, and dp = p(1−p) d log(S/V).
  add_cells(cells, {.statistic = Statistic::score_share, .site = Site::A_out},
            c.measured.find(Statistic::score_share, Site::A_out),
            prediction.profile.find(Statistic::score_share, Site::A_out), [&](std::size_t l, const Cell& cell) {
              const double slope = cell.predicted * (1.0 - cell.predicted);
              const double curvature = slope > 0.0 ? variance(cell) / (2.0 * slope) : 0.0;
              return slope * way_and_back(l) + curvature + rounding(c.dtype);
            });
  for (const auto& entry : c.measured.weight_curves) {
    const auto [statistic, weight] = entry.first;
    if (statistic != Statistic::log_grad_sq) continue;
    add_cells(cells, {.statistic = statistic, .weight = weight}, &entry.second,
              prediction.profile.find(statistic, weight),
              [&](std::size_t layer, const Cell& cell) { return gradient_allowance(2 * layer, cell); });
  }
  return cells;
}

}  // namespace

double degrees_of_freedom(const Cell& cell, int seeds, int replicates) {
  const double a = cell.measured_error * cell.measured_error;
  const double b = cell.predicted_error * cell.predicted_error;
  if (a + b == 0.0) return seeds - 1;
  return (a + b) * (a + b) / (a * a / (seeds - 1) + b * b / (replicates - 1));
}

double p_value(const Cell& cell, double degrees) {
  const double excess = cell.excess();
  if (excess == 0.0) return 1.0;
  if (!std::isfinite(excess)) return 0.0;
  return 2.0 * boost::math::cdf(boost::math::complement(boost::math::students_t(degrees), excess));
}

double critical_excess(double degrees, double level) {
  return boost::math::quantile(boost::math::complement(boost::math::students_t(degrees), level / 2.0));
}

double sidak_level(double familywise_error, std::size_t tests) {
  return -std::expm1(std::log1p(-familywise_error) / static_cast<double>(tests));
}

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::agrees: return "agrees";
    case Verdict::disagrees: return "disagrees";
    case Verdict::not_checked: break;
  }
  return "not-checked";
}

std::string Cell::name() const {
  const auto place =
      weight ? weight_names[static_cast<std::size_t>(*weight)] : site_names[static_cast<std::size_t>(site)];
  return fmt::format("{} {}[{}]", statistic_names[static_cast<std::size_t>(statistic)], place, index);
}

double Cell::z() const {
  const double difference = measured - predicted;
  return difference == 0.0 ? 0.0 : difference / combined(measured_error, predicted_error);
}

double Cell::excess() const {
  const double beyond = std::abs(measured - predicted) - allowance;
  return beyond <= 0.0 ? 0.0 : beyond / combined(measured_error, predicted_error);
}

std::vector<Agreement> judge(const std::vector<Comparison>& comparisons, const AgreementOptions& options) {
  std::vector<Agreement> agreements;
  std::size_t total = 0;
  for (const Comparison& c : comparisons) {
    Agreement agreement;
    agreement.reason = obstacle(c);
    if (agreement.reason.empty()) agreement.cells = cells_of(c, options);
    total += agreement.cells.size();
    agreements.push_back(std::move(agreement));
  }
  const double per_cell = sidak_level(options.familywise_error, total);
  for (std::size_t i = 0; i < comparisons.size(); ++i) {
    Agreement& agreement = agreements[i];
    if (agreement.cells.empty()) continue;
    double smallest = 2.0;
    double largest_z = -1.0;
    for (std::size_t j = 0; j < agreement.cells.size(); ++j) {
      const Cell& cell = agreement.cells[j];
      const double dof = degrees_of_freedom(cell, comparisons[i].seeds, comparisons[i].prediction.replicates);
      const double p = p_value(cell, dof);
      agreement.rejected += p < per_cell ? 1 : 0;
      if (p > smallest || (p == smallest && std::abs(cell.z()) <= largest_z)) continue;
      smallest = p;
      largest_z = std::abs(cell.z());
      agreement.worst = static_cast<int>(j);
      agreement.critical = critical_excess(dof, per_cell);
    }
    agreement.verdict = agreement.rejected > 0 ? Verdict::disagrees : Verdict::agrees;
  }
  return agreements;
}

}  // namespace periscope
