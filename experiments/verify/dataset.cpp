#include <cmath>
#include <limits>

#include "experiments/common/provenance.h"
#include "experiments/verify/report.h"

namespace periscope {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// The histogram of the file: this many bins of the tally's make one.
constexpr std::size_t coarse = 20;

using Names = std::vector<std::string>;
using Numbers = std::vector<double>;

void add_statements(const VerifyResult& r, NetcdfDataset& data) {
  Names ids, texts, kinds;
  Numbers cases, trivial, violations, median, q99, largest, histogram, bins;
  const std::size_t bin_count = r.tallies.front().histogram.counts().size() / coarse;
  for (std::size_t b = 0; b < bin_count; ++b) {
    const RatioHistogram& h = r.tallies.front().histogram;
    bins.push_back(0.5 * (h.centre(b * coarse) + h.centre((b + 1) * coarse - 1)));
  }
  for (std::size_t k = 0; k < statements().size(); ++k) {
    const Statement& s = statements()[k];
    const Tally& t = r.tallies[k];
    ids.emplace_back(s.id);
    texts.emplace_back(s.text);
    kinds.emplace_back(s.kind == StatementKind::bound      ? "bound"
                       : s.kind == StatementKind::identity ? "identity"
                                                           : "refutable");
    cases.push_back(static_cast<double>(t.cases));
    trivial.push_back(static_cast<double>(t.trivial));
    violations.push_back(static_cast<double>(t.violations));
    median.push_back(t.quantile(0.5));
    q99.push_back(t.quantile(0.99));
    largest.push_back(t.largest_case == Tally::none ? nan : t.largest);
    for (std::size_t b = 0; b < bin_count; ++b) {
      double sum = 0.0;
      for (std::size_t i = 0; i < coarse; ++i) sum += static_cast<double>(t.histogram.counts()[b * coarse + i]);
      histogram.push_back(sum);
    }
  }
  data.dimensions.insert(data.dimensions.end(), {{"statement", ids.size()}, {"log_ratio", bin_count}});
  const Names each{"statement"};
  for (NetcdfVariable v : std::vector<NetcdfVariable>{
           {"statement", each, ids, "", "what is checked"},
           {"statement_text", each, texts, "", "the statement in words"},
           {"statement_kind", each, kinds, "", "bound, identity, or a claim to be refuted"},
           {"cases", each, cases, "1", "random cases to which the statement applies"},
           {"trivial", each, trivial, "1", "cases in which the bound is infinite, or zero and met"},
           {"violations", each, violations, "1", "cases that break the statement"},
           {"ratio_median", each, median, "1", "measured over bound: median"},
           {"ratio_q99", each, q99, "1", "measured over bound: quantile 0.99"},
           {"ratio_largest", each, largest, "1", "measured over bound: largest"},
           {"log_ratio", {"log_ratio"}, bins, "1", "log10(measured over bound): middle of the bin"},
           {"ratio_histogram", {"statement", "log_ratio"}, histogram, "1", "cases per bin"}}) {
    data.variables.push_back(std::move(v));
  }
}

void add_widths(const VerifyResult& r, NetcdfDataset& data) {
  Numbers widths, cases, median, q99, largest, limit;
  const std::size_t count = r.by_width.front().size();
  for (std::size_t w = 0; w < count; ++w) widths.push_back(static_cast<double>(w + 1));
  for (const std::vector<Tally>& row : r.by_width) {
    for (const Tally& t : row) {
      cases.push_back(static_cast<double>(t.histogram.total()));
      median.push_back(t.quantile(0.5));
      q99.push_back(t.quantile(0.99));
      largest.push_back(t.largest_case == Tally::none ? nan : t.largest);
    }
  }
  for (const Statement& s : statements()) {
    for (std::size_t w = 0; w < count; ++w) limit.push_back(s.limit(static_cast<int>(w + 1)));
  }
  data.dimensions.emplace_back("width", count);
  const Names grid{"statement", "width"};
  data.variables.insert(data.variables.end(),
                        {{"width", {"width"}, widths, "1", "D"},
                         {"width_cases", grid, cases, "1", "cases with a ratio"},
                         {"width_ratio_median", grid, median, "1", "measured over bound: median at this width"},
                         {"width_ratio_q99", grid, q99, "1", "measured over bound: quantile 0.99 at this width"},
                         {"width_ratio_largest", grid, largest, "1", "measured over bound: largest at this width"},
                         {"width_ratio_limit", grid, limit, "1", "largest ratio that T14-T16 leave possible"}});
}

void add_attacks(const VerifyResult& r, NetcdfDataset& data) {
  Names names, formulas;
  Numbers reached, limits;
  for (const BoundAttackResult& a : r.attacks) {
    names.push_back(a.name);
    formulas.push_back(a.limit_formula);
    reached.push_back(a.reached);
    limits.push_back(a.limit);
  }
  data.dimensions.emplace_back("attack", names.size());
  const Names each{"attack"};
  data.variables.insert(data.variables.end(), {{"attack", each, names, "", "what was attacked"},
                                               {"attack_reached", each, reached, "1", "largest value reached"},
                                               {"attack_limit", each, limits, "1", "theory's limit (T14, T16)"},
                                               {"attack_limit_formula", each, formulas, "", "the limit in symbols"}});
}

void add_massive(const VerifyResult& r, NetcdfDataset& data) {
  Names placements;
  Numbers final_norm, gradient, low, high, bound, ceiling;
  for (const MassiveCurve& c : r.massive.curves) {
    placements.push_back(c.placement);
    final_norm.push_back(c.final_norm ? 1.0 : 0.0);
    gradient.insert(gradient.end(), c.gradient.begin(), c.gradient.end());
    low.insert(low.end(), c.low.begin(), c.low.end());
    high.insert(high.end(), c.high.begin(), c.high.end());
    bound.insert(bound.end(), c.bound.begin(), c.bound.end());
    ceiling.push_back(std::isfinite(c.ceiling) ? c.ceiling : nan);
  }
  data.dimensions.insert(data.dimensions.end(),
                         {{"massive_curve", placements.size()}, {"massive_factor", r.massive.factor.size()}});
  const Names each{"massive_curve"}, grid{"massive_curve", "massive_factor"};
  data.variables.insert(
      data.variables.end(),
      {{"massive_placement", each, placements, "", "normalization placement (T1)"},
       {"massive_final_norm", each, final_norm, "1", "1: a final norm in front of the loss"},
       {"massive_factor", {"massive_factor"}, r.massive.factor, "1", "factor on the hidden activation"},
       {"massive_gradient", grid, gradient, "1", "Frobenius norm of dL/dW2: median over the stacks"},
       {"massive_gradient_low", grid, low, "1", "quantile 0.16 over the stacks"},
       {"massive_gradient_high", grid, high, "1", "quantile 0.84 over the stacks"},
       {"massive_bound", grid, bound, "1", "bound of T14: median over the stacks"},
       {"massive_ceiling", each, ceiling, "1", "bound for every factor at once: median over the stacks"}});
  data.attributes["massive_stacks"] = r.massive.stacks;
  data.attributes["massive_width"] = r.massive.width;
  data.attributes["massive_hidden"] = r.massive.hidden;
}

}  // namespace

NetcdfDataset verify_dataset(const nlohmann::ordered_json& provenance, const VerifyResult& r) {
  NetcdfDataset data;
  data.attributes = provenance;
  data.attributes["verify_cases"] = r.config.cases;
  data.attributes["verify_scale"] = r.config.scale;
  data.attributes["verify_verdict"] = r.passed() ? "passed" : "failed";
  add_statements(r, data);
  add_widths(r, data);
  add_attacks(r, data);
  add_massive(r, data);
  return data;
}

}  // namespace periscope
