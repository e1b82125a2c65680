#include "experiments/engine/run/stacks.h"

#include <fmt/color.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "experiments/engine/judge/imprecise.h"
#include "experiments/engine/result/text_table.h"

namespace periscope::stacks {
namespace {

double error_at(const Curve& curve, std::size_t depth) {
  return depth < curve.standard_error.size() ? curve.standard_error[depth] : std::nan("");
}

/// The last value of a statistic of the stream.
std::string top_value(const Profile& profile, Statistic statistic = Statistic::second_moment) {
  const Curve* curve = profile.find(statistic, Signal::x_out);
  if (curve == nullptr || curve->value.empty()) return "–";
  return dataset::with_error(curve->value.back(), error_at(*curve, curve->value.size() - 1));
}

std::string measured_value(const Measurement& m) {
  return m.diverged_seeds > 0 ? fmt::format("diverged at sublayer {}", m.diverged_at) : top_value(m.profile);
}

/// The second moment of what enters the stack, as measured or else as predicted.
std::string input_value(const StackResult& r) {
  const Profile& profile = r.measurement ? r.measurement->profile : r.prediction.profile;
  const Curve* curve = profile.find(Statistic::second_moment, Signal::x_out);
  return curve == nullptr || curve->value.empty() ? "–" : dataset::number(curve->value.front(), "{:.3g}");
}

std::string input_of(const StackResult& r) {
  return std::string(input_kind_names[static_cast<std::size_t>(r.spec.input.kind)]);
}

/// The test of every stack that is nearest to rejection, and the detectable errors of all.
std::string worst_tests(const std::vector<StackResult>& results) {
  dataset::TextTable rows({"placement", "input", "worst test", ">excess / limit", ">could be off"});
  bool any = false;
  for (const StackResult& r : results) {
    const judge::StackVerdict& a = r.judged;
    if (a.worst < 0) continue;
    any = true;
    rows.add({config::placement_label(r.spec), input_of(r), a.worst_test().name(),
              fmt::format("{:.1f} / {:.1f}", a.worst_test().excess(), a.worst_test().critical),
              fmt::format("{} / {}", judge::error_words(a.power.worst), judge::error_words(a.power.median))});
  }
  return any ? "\n" + rows.text() : "";
}

/// Returns a norm at a depth, of whose square the curve has the logarithm.
std::string norm_at(const Curve& curve, std::size_t depth) {
  const double norm = std::exp(curve.value[depth] / 2.0);
  return dataset::with_error(norm, norm * error_at(curve, depth) / 2.0);
}

/// The last depth, where all stacks have the same: blocks in parallel have half as many additions.
std::string top_words(const std::vector<StackResult>& results) {
  const int steps = results.front().spec.model.steps();
  const bool same = std::ranges::all_of(results, [&](const StackResult& r) { return r.spec.model.steps() == steps; });
  return same ? fmt::to_string(steps) : "the top";
}

/// Returns "128 tokens", or "128 to 4096 tokens" if stacks differ.
std::string length_words(const std::vector<StackResult>& results) {
  const auto found = std::ranges::minmax_element(results, {}, [](const StackResult& r) { return r.spec.input.tokens; });
  const int least = found.min->spec.input.tokens;
  const int most = found.max->spec.input.tokens;
  return least == most ? fmt::format("{} tokens", most) : fmt::format("{} to {} tokens", least, most);
}

/// The variance that every stack leaves, and the gradient of the stream at both ends, as figures show them.
std::string gradient_rows(const std::vector<StackResult>& results) {
  const std::string at_top = top_words(results);
  dataset::TextTable rows({"placement", "input", "", fmt::format(">Var(x) at {}", at_top), ">‖∂loss/∂x‖ at 0",
                           fmt::format(">at {}", at_top), fmt::format(">0 / {}", at_top)});
  bool any = false;
  for (const StackResult& r : results) {
    const auto add = [&](const char* what, const Profile& profile) {
      const Curve* curve = profile.find(Statistic::log_grad_sq, Signal::x_out);
      if (curve == nullptr || curve->value.empty()) return;
      const std::size_t top = curve->value.size() - 1;
      any = true;
      const double ratio = std::exp((curve->value.front() - curve->value[top]) / 2.0);
      rows.add({config::placement_label(r.spec), input_of(r), what, top_value(profile, Statistic::variance),
                norm_at(*curve, 0), norm_at(*curve, top), dataset::number(ratio, "{:.3g}")});
    };
    add("predicted", r.prediction.profile);
    if (r.measurement) add("measured", r.measurement->profile);
    if (r.prediction.refusal.empty() && !r.prediction.gradient_refusal.empty()) {
      any = true;
      rows.add_note(config::placement_label(r.spec), "gradients are not predicted: " + r.prediction.gradient_refusal);
    }
  }
  if (!any) return {};
  const bool measured = std::ranges::any_of(results, [](const StackResult& r) { return r.measurement.has_value(); });
  return "\n" + rows.text() +
         fmt::format(
             "at 0, at {}: sublayers passed. Var(x): over features, mean over tokens; ‖∂loss/∂x‖: rms over tokens; "
             "{}± standard error. – where a number is missing.\n",
             at_top, measured ? "measured: mean over seeds, of gradients the geometric one; " : "");
}

/// Returns the names of the stacks that something holds for, or `all` if it holds for all of them.
std::string stacks_in_words(const std::vector<std::string>& stacks, std::size_t count, const std::string& all) {
  return stacks.size() == count ? all : fmt::format("{}", fmt::join(stacks, "; "));
}

/// Returns a hint where weights are drawn with a standard deviation of their own and the input's second moment does not
/// fit it: the stream and its gradients depend on their ratio. It names the stacks, if it is not true of all.
std::string scale_hint(const std::vector<StackResult>& results) {
  std::map<std::string, std::vector<std::string>> stacks_of;
  for (const StackResult& r : results) {
    const InitSpec& init = r.spec.init;
    const bool mitchell = init.scheme == InitScheme::mitchell;
    const double embedding = std::pow(drawn_embedding_stddev(r.spec), 2);
    const double ratio = r.spec.input.second_moment / embedding;
    if (!r.spec.recipe.empty()) continue;  // which has set both as the family's models have them
    if ((init.scheme != InitScheme::normal && !mitchell) || r.spec.model.embedding_norm || init.embedding_std) continue;
    if (ratio > 0.5 && ratio < 2.0) continue;
    const std::string drawn = mitchell ? "by Mitchell's rule" : fmt::format("from N(0, {:g}²)", init.std);
    stacks_of[fmt::format("weights are drawn {}, and the input has E[x²] = {:g}; embeddings with that standard "
                          "deviation would have {:g}.\n",
                          drawn, r.spec.input.second_moment, embedding)]
        .push_back(config::placement_label(r.spec));
  }
  if (stacks_of.empty()) return {};
  std::string hint;
  for (const auto& [words, stacks] : stacks_of) {
    hint += fmt::format("{}: {}", stacks_in_words(stacks, results.size(), "note"), words);
  }
  return hint +
         "Both the stream and its gradients depend on that. Set input.second_moment, or by model.recipe all that a "
         "real model has.\n";
}

std::string verdict_words(const judge::StackVerdict& a, bool colour) {
  const std::string words(judge::name_of(a.verdict));
  if (!colour) return words;
  const auto shade = a.verdict == judge::Verdict::agrees      ? fmt::terminal_color::green
                     : a.verdict == judge::Verdict::disagrees ? fmt::terminal_color::red
                                                              : fmt::terminal_color::yellow;
  return fmt::format(fmt::fg(shade), "{}", words);
}

/// A line for every stack whose predicted gradients miss their precision: no verdict may rest on them.
std::string imprecise_lines(const std::vector<StackResult>& results) {
  constexpr std::size_t shown = 4;
  std::string lines;
  for (const StackResult& r : results) {
    const std::vector<std::string> names = judge::imprecise_names(r.prediction);
    if (names.empty()) continue;
    lines +=
        fmt::format("less precise than wanted (theory.gradient_tolerance = {:g}): {}, {}: {}{}\n",
                    r.prediction.gradient_tolerance, config::placement_label(r.spec), input_of(r),
                    fmt::join(names.begin(), names.begin() + static_cast<long>(std::min(names.size(), shown)), "; "),
                    names.size() > shown ? fmt::format("; and {} more", names.size() - shown) : "");
  }
  return lines;
}

/// Returns the largest entry of a signal over all depths; NaN if there is none.
double largest_entry(const Profile& profile, Signal signal) {
  double largest = std::nan("");
  if (const Curve* curve = profile.find(Statistic::maximum, signal)) {
    for (const double v : curve->value) largest = std::isnan(largest) ? v : std::max(largest, v);
  }
  return largest;
}

/// Returns a line for every stack whose sum before norm C has much larger entries than the stream after it.
std::string sum_lines(const std::vector<StackResult>& results) {
  constexpr double much_larger = 2.0;
  std::string lines;
  for (const StackResult& r : results) {
    const auto sum_in = [](const Profile& profile) {
      return dataset::number(largest_entry(profile, Signal::sum), "{:.3g}");
    };
    const Profile& shown = r.measurement ? r.measurement->profile : r.prediction.profile;
    const double stream = largest_entry(shown, Signal::x_out);
    if (!(largest_entry(shown, Signal::sum) > much_larger * stream)) continue;
    lines +=
        fmt::format("largest |x|: {}, {}: {} predicted{} in the sum before norm C, {:.3g} in the stream after it.\n",
                    config::placement_label(r.spec), input_of(r), sum_in(r.prediction.profile),
                    r.measurement ? fmt::format(", {} measured,", sum_in(r.measurement->profile)) : "", stream);
  }
  return lines;
}

/// Returns a line for every reason why something was left out of predictions, with the stacks that it holds for.
std::string left_out_lines(const std::vector<StackResult>& results) {
  std::map<std::string, std::vector<std::string>> stacks_of;
  for (const StackResult& r : results) {
    if (r.prediction.left_out.empty()) continue;
    stacks_of[r.prediction.left_out].push_back(fmt::format("{}, {}", config::short_label(r.spec), input_of(r)));
  }
  std::string lines;
  for (const StackResult& r : results) {
    const auto found = stacks_of.extract(r.prediction.left_out);  // a reason stands where its first stack does
    if (found.empty()) continue;
    const std::vector<std::string>& stacks = found.mapped();
    const std::string all = stacks.size() > 1 ? "all stacks" : stacks.front();
    lines += fmt::format("left out: {}: {}\n", stacks_in_words(stacks, results.size(), all), found.key());
  }
  return lines;
}

}  // namespace

std::string verdict_table(const std::vector<StackResult>& results, const config::AgreementOptions& options,
                          bool colour) {
  const bool measured = results.front().measurement.has_value();
  std::vector<std::string> head{"placement", "input", ">input E[x²]", ">top E[x²] predicted"};
  if (measured) head.insert(head.end(), {">measured", "verdict"});
  dataset::TextTable rows(head);
  std::size_t tests = 0;
  for (const StackResult& r : results) {
    const std::string predicted = r.prediction.refusal.empty() ? top_value(r.prediction.profile) : "refused";
    std::vector<std::string> row{config::placement_label(r.spec), input_of(r), input_value(r), predicted};
    if (measured) row.push_back(measured_value(*r.measurement));
    if (measured) row.push_back(verdict_words(r.judged, colour));
    rows.add(std::move(row));
    const std::string& why = measured ? r.judged.reason : r.prediction.refusal;
    if (!why.empty()) rows.add_note("", why);
    tests += r.judged.tests.size();
  }
  std::string table = rows.text();
  table += fmt::format(
      "input, top: depth 0 and {} of the stream, in sublayers, for sequences of {} (input.tokens), on which all "
      "numbers depend; E[x²]: its second moment, ± standard error.\n",
      top_words(results), length_words(results));
  table += sum_lines(results) + scale_hint(results) + gradient_rows(results) + imprecise_lines(results) +
           left_out_lines(results);
  const std::string worst = measured ? worst_tests(results) : "";
  if (worst.empty()) return table;
  const bool at_width = std::ranges::any_of(results, [](const StackResult& r) { return r.prediction.exact_at_width; });
  const std::string forward = at_width ? "rounding alone for signals"
                                       : fmt::format("{:g}·w of a moment and {:g}·w of a cosine", options.finite_width,
                                                     options.finite_width_cosine);
  table +=
      worst +
      fmt::format(
          "excess: standard errors by which |measured − predicted| exceeds what is allowed: {}, {:g}·w and more of a "
          "gradient (w = depth/width); limit: Student's t at a familywise error of {:g} over {} tests.\n",
          forward, options.finite_width_gradient, options.familywise_error, tests);
  table +=
      "could be off: error that the test would have rejected with 95 % probability, worst / median test, relative for "
      "moments, absolute for cosines and logarithms; above a statistic's limit (periscope list) the verdict is "
      "inconclusive.\n";
  return table;
}

}  // namespace periscope::stacks
