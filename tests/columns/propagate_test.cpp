#include "experiments/studies/propagate/propagate.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "tests/columns/by_hand.h"
#include "tests/columns/expected_columns.h"
#include "tests/support/doctest.h"

/// Planted results of propagate: every column from the raw numbers.
namespace periscope::testing::propagate_columns {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double level = 1e-3;
constexpr std::size_t sublayers = 4;
constexpr std::size_t depths = sublayers + 1;
constexpr std::size_t layers = 2;
constexpr std::size_t stacks = 4;  // two inputs, outermost, and two placements

struct Planted {
  config::Config config;
  std::vector<stacks::StackResult> results;
};

Curve curve(Irregular& numbers, std::size_t length) { return {numbers.next(length), numbers.next(length)}; }

const std::vector<std::pair<Statistic, Signal>> curves{
    {Statistic::second_moment, Signal::x_out}, {Statistic::token_cosine, Signal::x_out},
    {Statistic::log_grad_sq, Signal::x_out},   {Statistic::second_moment, Signal::f_out},
    {Statistic::score_share, Signal::A_out},   {Statistic::second_moment, Signal::r_out}};

/// Cells whose raw numbers are all different: of the stream, a module, a matrix, and two contrasts.
std::vector<judge::Cell> planted_cells(Irregular& numbers) {
  const auto cell = [&](Statistic statistic, Signal signal, int index) {
    judge::Cell c{.statistic = statistic, .signal = signal, .index = index};
    c.measured = 10.0 * numbers.next();
    c.measured_error = 0.3 * numbers.next();
    c.predicted = 3.0 * numbers.next();
    c.predicted_error = 0.4 * numbers.next();
    c.allowance = 0.05 * numbers.next();
    c.scale = 1.7 * numbers.next();
    c.seeds = 17;
    c.replicates = 9;
    return c;
  };
  std::vector<judge::Cell> cells{
      cell(Statistic::second_moment, Signal::x_out, 3), cell(Statistic::second_moment, Signal::f_out, 1),
      cell(Statistic::score_share, Signal::A_out, 2),   cell(Statistic::log_grad_sq, Signal::x_out, 1),
      cell(Statistic::log_grad_sq, Signal::x_out, 0),   cell(Statistic::second_moment, Signal::x_out, 0),
      cell(Statistic::second_moment, Signal::f_out, 0)};
  cells[3].weight = Weight::down;
  cells[5].contrast = "mean";
  cells[6].contrast = "mlp slope";
  return cells;
}

double error_of(const judge::Cell& c) {
  return std::sqrt(c.measured_error * c.measured_error + c.predicted_error * c.predicted_error);
}
double degrees_of(const judge::Cell& c) { return degrees_by_hand(c.measured_error, 16.0, c.predicted_error, 8.0); }
double power_of(const judge::Cell& c) {
  return smallest_rejected_by_hand(c.allowance, error_of(c), degrees_of(c), c.scale, level);
}
double excess_of(const judge::Cell& c) { return (std::abs(c.measured - c.predicted) - c.allowance) / error_of(c); }

Planted planted() {
  Planted p;
  p.config.base.model = {.layers = 2, .width = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .mlp_width = 8};
  p.config.base.input.tokens = 3;
  p.config.inputs = {InputKind::gaussian, InputKind::tokens};
  p.config.placements = {*find_placement("pre"), *find_placement("residual-dual")};
  p.config.run.dtype = DType::f64;
  p.config.run.seed = 5;
  p.config.run.seeds = 2;
  const std::vector<StackSpec> specs = p.config.stacks();
  Irregular numbers;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    stacks::StackResult& r = p.results.emplace_back();
    r.spec = specs[i];
    stacks::Measurement& m = r.measurement.emplace();
    theory::Prediction& t = r.prediction;
    for (const auto& key : curves) {
      const std::size_t length = runs_over_depth(key.second) ? depths : sublayers;
      for (Profile* profile : {&m.profile, &t.profile, &t.limit, &t.spread})
        profile->curves[key] = curve(numbers, length);
    }
    // Of T25 are the stream's second moments alone; one curve is measured alone, one predicted alone.
    t.spread.curves.erase({Statistic::second_moment, Signal::f_out});
    t.spread.curves.erase({Statistic::token_cosine, Signal::x_out});
    m.profile.curves[{Statistic::maximum, Signal::x_out}] = curve(numbers, depths);
    t.profile.curves[{Statistic::kurtosis, Signal::x_out}] = curve(numbers, depths);
    for (Profile* profile : {&m.profile, &t.profile}) {
      profile->curves[{Statistic::maximum, Signal::sum}] = curve(numbers, depths);
    }
    for (const Weight w : {Weight::q, Weight::down}) {
      for (Profile* profile : {&m.profile, &t.profile})
        profile->weight_curves[{Statistic::log_grad_sq, w}] = curve(numbers, layers);
    }
    m.profile.angular_distance = numbers.next(depths * depths);
    t.profile.angular_distance = numbers.next(depths * depths);
    for (const Signal s : {Signal::x_out, Signal::f_out}) {
      for (std::size_t l = 0; l < sublayers; ++l) m.top[s].push_back(numbers.next(2));
    }
    m.seeds = 17;
    const int n = static_cast<int>(i);
    if (i == 1) {
      m.diverged_seeds = 3;
      m.diverged_at = 2;
    }
    t.finite_width = numbers.next(depths);
    t.exact_at_width = i != 3;
    t.replicates = 5 + n;
    t.samples = 23 + n;
    t.backward_samples = 41 + n;
    t.finite_width_replicates = 67 + n;
    // What is predicted less precisely than wanted: of logarithms absolute, of shares relative.
    t.gradient_tolerance = 1.6;
    const double shift = 0.01 * static_cast<double>(i);
    t.profile.curves[{Statistic::log_grad_sq, Signal::x_out}].standard_error = {1.1 + shift, 1.7 + shift, 1.75 + shift,
                                                                                1.2 + shift, 1.9 + shift};
    for (double& error : t.profile.curves[{Statistic::score_share, Signal::A_out}].standard_error) error *= 0.5;
    t.profile.weight_curves[{Statistic::log_grad_sq, Weight::q}].standard_error = {1.71 + shift, 1.13 + shift};
    t.profile.weight_curves[{Statistic::log_grad_sq, Weight::down}].standard_error = {1.14 + shift, 1.23 + shift};
    if (i == 2) t.refusal = "because";
    if (i == 1) t.gradient_refusal = "no gradients";
    judge::Agreement& a = r.agreement;
    a.verdict = i == 0 ? judge::Verdict::disagrees : i == 1 ? judge::Verdict::inconclusive : judge::Verdict::agrees;
    if (i == 1) a.reason = "weak";
    if (i == 3) {
      a.verdict = judge::Verdict::not_checked;
      a.reason = "too few seeds";
      continue;
    }
    a.cells = planted_cells(numbers);
    a.level = level;
    a.critical = 7.0 * numbers.next();
    a.rejected = 11 + n;
    a.worst = i == 0 ? 3 : i == 1 ? 5 : 0;
    if (i == 0) a.by = "somebody";
    a.power.worst = 2.0 * numbers.next();
    a.power.median = numbers.next();
    a.power.statistics = {{Statistic::second_moment, numbers.next(), numbers.next(), numbers.next(), 1},
                          {Statistic::log_grad_sq, numbers.next(), numbers.next(), numbers.next(), 4}};
  }
  return p;
}

/// One number of every stack, or NaN.
template <class Get>
std::vector<double> each(const Planted& p, const Get& get) {
  std::vector<double> all;
  for (const stacks::StackResult& r : p.results) all.push_back(get(r));
  return all;
}

template <class Get>
std::vector<std::string> each_word(const Planted& p, const Get& get) {
  std::vector<std::string> all;
  for (const stacks::StackResult& r : p.results) all.push_back(get(r));
  return all;
}

/// The numbers of every stack behind each other.
template <class Get>
std::vector<double> joined(const Planted& p, const Get& get) {
  std::vector<double> all;
  for (const stacks::StackResult& r : p.results) {
    const std::vector<double> one = get(r);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

/// The versions of a curve, each from its raw numbers; empty where there is none.
struct Version {
  const char* name;
  std::vector<double> (*get)(const stacks::StackResult&, Statistic, Signal);
};

std::vector<double> value_of(const Profile& profile, Statistic s, Signal at) {
  const auto it = profile.curves.find({s, at});
  return it == profile.curves.end() ? std::vector<double>() : it->second.value;
}
std::vector<double> error_of(const Profile& profile, Statistic s, Signal at) {
  const auto it = profile.curves.find({s, at});
  return it == profile.curves.end() ? std::vector<double>() : it->second.standard_error;
}

/// (measured − predicted)/√(s² + s_p²), entry by entry.
std::vector<double> z_of(const Curve& measured, const Curve& predicted) {
  std::vector<double> z;
  for (std::size_t i = 0; i < measured.value.size(); ++i) {
    const double s = measured.standard_error[i];
    const double p = predicted.standard_error[i];
    z.push_back((measured.value[i] - predicted.value[i]) / std::sqrt(s * s + p * p));
  }
  return z;
}

const Version versions[] = {
    {"measured",
     [](const stacks::StackResult& r, Statistic s, Signal at) { return value_of(r.measurement->profile, s, at); }},
    {"stderr",
     [](const stacks::StackResult& r, Statistic s, Signal at) { return error_of(r.measurement->profile, s, at); }},
    {"predicted",
     [](const stacks::StackResult& r, Statistic s, Signal at) { return value_of(r.prediction.profile, s, at); }},
    {"predicted_stderr",
     [](const stacks::StackResult& r, Statistic s, Signal at) { return error_of(r.prediction.profile, s, at); }},
    {"predicted_limit",
     [](const stacks::StackResult& r, Statistic s, Signal at) {
       // Only where the prediction is that of the width, not of the limit.
       const bool exact = r.prediction.exact_at_width && !value_of(r.prediction.spread, s, at).empty();
       return exact ? value_of(r.prediction.limit, s, at) : std::vector<double>();
     }},
    {"z", [](const stacks::StackResult& r, Statistic s, Signal at) {
       const Curve* measured = r.measurement->profile.find(s, at);
       const Curve* predicted = r.prediction.profile.find(s, at);
       return measured == nullptr || predicted == nullptr ? std::vector<double>() : z_of(*measured, *predicted);
     }}};

void check_curves(const Planted& p, ExpectedColumns& expected) {
  for (const Version& v : versions) {
    // On depth: the stream with the stack's input; ResiDual's second stream; measured alone; predicted alone.
    std::vector<std::pair<Statistic, Signal>> over_depth{{Statistic::second_moment, Signal::x_out},
                                                         {Statistic::token_cosine, Signal::x_out},
                                                         {Statistic::log_grad_sq, Signal::x_out},
                                                         {Statistic::second_moment, Signal::r_out}};
    const std::string name(v.name);
    const bool of_measured = name == "measured" || name == "stderr";
    const bool of_predicted = name == "predicted" || name == "predicted_stderr";
    if (of_measured || of_predicted) {
      over_depth.emplace_back(Statistic::maximum, Signal::x_out);
      over_depth.emplace_back(Statistic::kurtosis, Signal::x_out);
    }
    if (name != "predicted_limit") over_depth.emplace_back(Statistic::maximum, Signal::sum);
    for (const auto& key : over_depth) {
      const Statistic statistic = key.first;
      const Signal signal = key.second;
      const std::string of = signal == Signal::r_out ? "r_out" : signal == Signal::sum ? "sum" : "";
      std::vector<double> on_depth = joined(p, [&](const stacks::StackResult& r) {
        std::vector<double> row = v.get(r, statistic, signal);
        row.resize(depths, nan);
        return row;
      });
      const std::string column = fmt::format("{}{}{}_{}", of, of.empty() ? "" : "_", name_of(statistic), v.name);
      if (name == "predicted_limit" && statistic == Statistic::token_cosine) continue;
      expected.numbers(column, on_depth,
                       fmt::format("cells/*/{}{}{}/{}", of, of.empty() ? "" : "/", name_of(statistic), v.name));
    }
    // On (site, sublayer): streams without the input.
    std::set<Statistic> statistics;
    for (const auto& [statistic, signal] : curves) statistics.insert(statistic);
    if (of_measured || of_predicted) statistics.insert({Statistic::maximum, Statistic::kurtosis});
    if (name == "predicted_limit") statistics.erase(Statistic::token_cosine);
    for (const Statistic statistic : statistics) {
      const std::vector<double> on_sites = joined(p, [&](const stacks::StackResult& r) {
        std::vector<double> row;
        for (const Signal s : stream_signals) {
          std::vector<double> one = v.get(r, statistic, s);
          if (!one.empty() && runs_over_depth(s)) one.erase(one.begin());
          one.resize(sublayers, nan);
          row.insert(row.end(), one.begin(), one.end());
        }
        return row;
      });
      expected.numbers(fmt::format("site_{}_{}", name_of(statistic), v.name), on_sites,
                       fmt::format("cells/*/sites/*/{}/{}", name_of(statistic), v.name));
    }
  }
  for (const char* version : {"measured", "stderr", "predicted", "predicted_stderr", "z"}) {
    const std::vector<double> on_weights = joined(p, [&](const stacks::StackResult& r) {
      std::vector<double> row(7 * layers, nan);
      for (const Weight w : {Weight::q, Weight::down}) {
        const Curve& m = r.measurement->profile.weight_curves.at({Statistic::log_grad_sq, w});
        const Curve& t = r.prediction.profile.weight_curves.at({Statistic::log_grad_sq, w});
        const std::string name(version);
        const std::vector<double> values = name == "measured"           ? m.value
                                           : name == "stderr"           ? m.standard_error
                                           : name == "predicted"        ? t.value
                                           : name == "predicted_stderr" ? t.standard_error
                                                                        : z_of(m, t);
        for (std::size_t l = 0; l < layers; ++l) row[(w == Weight::q ? 0 : 6) * layers + l] = values[l];
      }
      return row;
    });
    expected.numbers(fmt::format("weight_log_grad_sq_{}", version), on_weights,
                     fmt::format("cells/*/weight_log_grad_sq/*/{}", version));
  }
}

/// What a verdict rests on.
void check_verdicts(const Planted& p, ExpectedColumns& expected) {
  const auto judged = [](const stacks::StackResult& r) { return r.agreement.worst >= 0; };
  const auto worst = [&](const stacks::StackResult& r) { return r.agreement.worst_cell(); };
  expected.words("verdict", {"disagrees", "inconclusive", "agrees", "not-checked"}, "cells/*/verdict");
  expected.words("verdict_reason", {"", "weak", "", "too few seeds"}, "cells/*/reason");
  expected.words("worst_cell", {"log_grad_sq down[1]", "second_moment x_out mean", "second_moment x_out[3]", ""},
                 "cells/*/worst/name");
  expected.words("worst_statistic", {"log_grad_sq", "second_moment", "second_moment", ""}, "cells/*/worst/statistic");
  expected.words("worst_place", {"down", "x_out", "x_out", ""}, "cells/*/worst/site");
  expected.numbers("worst_index", {1.0, 0.0, 3.0, nan}, "cells/*/worst/index");
  expected.numbers("worst_z",
                   each(p,
                        [&](const stacks::StackResult& r) {
                          if (!judged(r)) return nan;
                          return (worst(r).measured - worst(r).predicted) / error_of(worst(r));
                        }),
                   "cells/*/worst/z");
  expected.numbers("worst_excess",
                   each(p, [&](const stacks::StackResult& r) { return judged(r) ? excess_of(worst(r)) : nan; }),
                   "cells/*/worst/beyond_finite_width");
  expected.numbers("worst_critical",
                   each(p, [&](const stacks::StackResult& r) { return judged(r) ? r.agreement.critical : nan; }),
                   "cells/*/worst/critical");
  expected.numbers("rejected", {11.0, 12.0, 13.0, nan}, "cells/*/rejected");
  expected.words("rejected_by", {"somebody", "", "", ""}, "cells/*/by");
  expected.numbers("power_worst",
                   each(p, [&](const stacks::StackResult& r) { return judged(r) ? r.agreement.power.worst : nan; }),
                   "cells/*/power/worst");
  expected.numbers("power_median",
                   each(p, [&](const stacks::StackResult& r) { return judged(r) ? r.agreement.power.median : nan; }),
                   "cells/*/power/median");
  const auto on_statistics = [&](const auto& get) {
    return joined(p, [&](const stacks::StackResult& r) {
      std::vector<double> row(statistic_names.size(), nan);
      for (const judge::StatisticPower& s : r.agreement.power.statistics)
        row[static_cast<std::size_t>(s.statistic)] = get(s);
      return row;
    });
  };
  const std::string at = "cells/*/power/statistics/*/";
  expected.numbers("statistic_power_worst", on_statistics([](const judge::StatisticPower& s) { return s.worst; }),
                   at + "worst");
  expected.numbers("statistic_power_median", on_statistics([](const judge::StatisticPower& s) { return s.median; }),
                   at + "median");
  expected.numbers("statistic_power_limit", on_statistics([](const judge::StatisticPower& s) { return s.limit; }),
                   at + "limit");
  std::vector<std::string> named(stacks * statistic_names.size());
  for (std::size_t i = 0; i < 3; ++i) {
    named[i * statistic_names.size()] = "second_moment f_out[1]";
    named[i * statistic_names.size() + static_cast<std::size_t>(Statistic::log_grad_sq)] = "log_grad_sq x_out[0]";
  }
  expected.words("statistic_power_at", named, at + "at");

  // T22 of single cells, where they are; contrasts are none.
  const auto cell_at = [&](std::size_t length, std::size_t cell, std::size_t index) {
    return joined(p, [&](const stacks::StackResult& r) {
      std::vector<double> row(length, nan);
      if (judged(r)) row[index] = power_of(r.agreement.cells[cell]);
      return row;
    });
  };
  expected.numbers("second_moment_power", cell_at(depths, 0, 3));
  expected.numbers("f_out_second_moment_power", cell_at(sublayers, 1, 1));
  expected.numbers("A_out_score_share_power", cell_at(sublayers, 2, 2));
  expected.numbers("log_grad_sq_power", cell_at(depths, 4, 0));
  expected.numbers("weight_log_grad_sq_power", cell_at(7 * layers, 3, 6 * layers + 1));

  const auto on_contrasts = [&](const auto& get) {
    return joined(p, [&](const stacks::StackResult& r) {
      if (!judged(r)) return std::vector<double>{nan, nan};
      return std::vector<double>{get(r.agreement.cells[5]), get(r.agreement.cells[6])};
    });
  };
  expected.numbers("contrast", {0, 1});
  const std::string c = "cells/*/contrasts/*/";
  const std::string mean = "second_moment x_out mean";
  const std::string slope = "second_moment f_out mlp slope";
  expected.words("contrast_name", {mean, slope, mean, slope, mean, slope, "", ""}, c + "name");
  expected.numbers("contrast_deviation", on_contrasts([](const judge::Cell& x) { return x.measured; }),
                   c + "deviation");
  expected.numbers("contrast_stderr", on_contrasts([](const judge::Cell& x) { return error_of(x); }), c + "stderr");
  expected.numbers("contrast_allowance", on_contrasts([](const judge::Cell& x) { return x.allowance; }),
                   c + "allowance");
  expected.numbers("contrast_excess", on_contrasts([](const judge::Cell& x) { return excess_of(x); }), c + "excess");
  expected.numbers("contrast_power", on_contrasts([](const judge::Cell& x) { return power_of(x); }), c + "power");
}

/// What was run, measured and predicted besides.
void check_rest(const Planted& p, ExpectedColumns& expected) {
  expected.words("input", {"gaussian", "tokens"});
  expected.words("placement", {"pre", "residual-dual"});
  expected.words("placement_settings", {R"({"model.placement":"pre"})", R"({"model.placement":"residual-dual"})"},
                 "coordinates/placement_settings");
  expected.json("cells/*/placement", {"pre", "residual-dual", "pre", "residual-dual"});
  expected.json("cells/*/input", {"gaussian", "gaussian", "tokens", "tokens"});
  expected.words("weights", std::vector<std::string>(stacks, "dense"), "cells/*/weights");
  expected.numbers("angular_distance_predicted",
                   joined(p, [](const stacks::StackResult& r) { return r.prediction.profile.angular_distance; }));
  expected.numbers("angular_distance_measured",
                   joined(p, [](const stacks::StackResult& r) { return r.measurement->profile.angular_distance; }));
  expected.numbers("top_magnitudes", joined(p, [](const stacks::StackResult& r) {
                     std::vector<double> row(6 * sublayers * top_count, nan);
                     for (std::size_t l = 0; l < sublayers; ++l) {
                       for (std::size_t k = 0; k < 2; ++k) {
                         row[(2 * sublayers + l) * top_count + k] = r.measurement->top.at(Signal::f_out)[l][k];
                         row[(4 * sublayers + l) * top_count + k] = r.measurement->top.at(Signal::x_out)[l][k];
                       }
                     }
                     return row;
                   }));
  expected.numbers("finite_width", joined(p, [](const stacks::StackResult& r) { return r.prediction.finite_width; }),
                   "cells/*/finite_width");
  expected.numbers("theory_replicates", {5, 6, 7, 8}, "cells/*/theory/replicates");
  expected.numbers("theory_patterns", {23, 24, 25, 26}, "cells/*/theory/patterns");
  expected.numbers("theory_patterns_back", {41, 42, 43, 44}, "cells/*/theory/patterns_back");
  expected.numbers("theory_finite_width_replicates", {67, 68, 69, nan}, "cells/*/theory/finite_width_replicates");
  expected.words("theory_refusal", {"", "", "because", ""}, "cells/*/theory/refused");
  expected.words("theory_gradient_refusal", {"", "no gradients", "", ""}, "cells/*/theory/gradients_refused");
  expected.numbers("diverged_seeds", {0, 3, 0, 0}, "cells/*/diverged/seeds");
  expected.numbers("diverged_at", {nan, 2, nan, nan}, "cells/*/diverged/sublayer");
  expected.words("theory_imprecise", std::vector<std::string>(stacks, "log_grad_sq x_out[1-2, 4]; log_grad_sq q[0]"),
                 "cells/*/theory/imprecise");
  // Coordinates, and what a curve is of.
  expected.numbers("depth", {0, 1, 2, 3, 4});
  expected.numbers("other_depth", {0, 1, 2, 3, 4});
  expected.numbers("sublayer", {0, 1, 2, 3});
  expected.numbers("sublayer_layer", {0, 0, 1, 1}, "coordinates/sublayer_layer");
  expected.words("sublayer_kind", {"attention", "mlp", "attention", "mlp"}, "coordinates/sublayer_kind");
  expected.numbers("sublayer_branch", {0, 0, 0, 0}, "coordinates/sublayer_branch");
  expected.numbers("layer", {0, 1});
  std::vector<double> ranks(top_count);
  std::iota(ranks.begin(), ranks.end(), 1.0);
  expected.numbers("rank", ranks);
  expected.words("site", {"x_in", "A_out", "f_out", "B_out", "x_out", "r_out"});
  expected.words("weight", {"q", "k", "v", "o", "gate", "up", "down"});
  expected.words("statistic", {"second_moment", "variance", "mean", "kurtosis", "maximum", "token_cosine",
                               "branch_ratio", "branch_cosine", "grad_sq", "log_grad_sq", "score_share"});
  for (const char* name : {"second_moment", "token_cosine", "log_grad_sq", "maximum"}) {
    expected.json(fmt::format("cells/*/{}/site", name), {"x_out", "x_out", "x_out", "x_out"});
  }
}

}  // namespace

TEST_CASE("propagate: every column from raw numbers") {
  const Planted p = planted();
  // Two seeds of every stack; gradients of the first stack alone.
  std::vector<judge::SeedCurves> per_seed(p.results.size());
  std::map<Statistic, std::vector<double>> planted_seeds;
  Irregular numbers(0.7);
  for (std::size_t i = 0; i < p.results.size(); ++i) {
    for (int seed = 0; seed < 2; ++seed) {
      Profile profile;
      for (const Statistic s : {Statistic::second_moment, Statistic::variance, Statistic::log_grad_sq}) {
        std::vector<double>& all = planted_seeds[s];
        if (s == Statistic::log_grad_sq && i > 0) {
          all.resize(all.size() + depths, nan);
          continue;
        }
        const std::vector<double> values = numbers.next(depths);
        profile.curves[{s, Signal::x_out}] = {values, {}};
        all.insert(all.end(), values.begin(), values.end());
      }
      per_seed[i].add(profile);
    }
  }
  ExpectedColumns expected(propagate::schema(), propagate::dataset_of(p.config, p.results, per_seed));
  expected.numbers("seed", {5, 6});
  for (const auto& [statistic, values] : planted_seeds) {
    const std::string name(name_of(statistic));
    expected.numbers(name + "_per_seed", values, "cells/*/" + name + "/per_seed");
  }
  check_curves(p, expected);
  check_verdicts(p, expected);
  check_rest(p, expected);
  expected.complete();
}

}  // namespace periscope::testing::propagate_columns
