#include "experiments/engine/run/stacks.h"

#include <fmt/color.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/judge/imprecise.h"
#include "experiments/engine/result/text_table.h"

namespace periscope::stacks {
namespace {

using dataset::number;

/// Returns a statistic of the stream over depth; null if there is none.
const Curve* of_stream(const Profile& profile, Statistic statistic) {
  const Curve* curve = profile.find(statistic, Signal::x_out);
  return curve == nullptr || curve->value.empty() ? nullptr : curve;
}

double error_at(const Curve& curve, std::size_t depth) {
  return depth < curve.standard_error.size() ? curve.standard_error[depth] : std::nan("");
}

/// The last value of a statistic of the stream.
std::string top_value(const Profile& profile, Statistic statistic) {
  const Curve* curve = of_stream(profile, statistic);
  return curve == nullptr ? "–" : dataset::with_error(curve->value.back(), error_at(*curve, curve->value.size() - 1));
}

/// The second moment of the stack's input, as measured or else as predicted.
std::string input_value(const StackResult& r) {
  const Curve* curve =
      of_stream(r.measurement ? r.measurement->profile : r.prediction.profile, Statistic::second_moment);
  return curve == nullptr ? "–" : number(curve->value.front(), "{:.3g}");
}

std::string input_of(const StackResult& r) {
  return std::string(input_kind_names[static_cast<std::size_t>(r.spec.input.kind)]);
}

/// The test of every stack that is nearest to rejection, and the detectable errors of all.
std::string worst_tests(const std::vector<StackResult>& results, double familywise_error) {
  dataset::TextTable rows({"placement", "input", "worst test", ">excess / limit", ">could be off"});
  std::size_t tests = 0;
  for (const StackResult& r : results) {
    const judge::StackVerdict& a = r.judged;
    if (a.worst < 0) continue;
    tests += a.tests.size();
    rows.add({config::placement_label(r.spec), input_of(r), a.worst_test().name(),
              fmt::format("{:.1f} / {:.1f}", a.worst_test().excess(), a.worst_test().critical),
              fmt::format("{} / {}", judge::error_words(a.power.worst), judge::error_words(a.power.median))});
  }
  if (tests == 0) return {};
  return fmt::format(
      "\n{}excess: standard errors by which |measured − predicted| exceeds the tolerated bias; limit: Student's t at a "
      "familywise error of {:g} over {} tests.\n"
      "could be off: error that would have been rejected with 95 % probability, worst / median test; above a "
      "statistic's limit (periscope list) the verdict is inconclusive.\n",
      rows.text(), familywise_error, tests);
}

/// Returns a norm at a depth, of whose square the curve has the logarithm.
std::string norm_at(const Curve& curve, std::size_t depth) {
  const double norm = std::exp(curve.value[depth] / 2.0);
  return dataset::with_error(norm, norm * error_at(curve, depth) / 2.0);
}

/// The last depth, if all stacks have the same: blocks in parallel have half as many additions.
std::string top_words(const std::vector<StackResult>& results) {
  const int steps = results.front().spec.model.steps();
  const bool same = std::ranges::all_of(results, [&](const StackResult& r) { return r.spec.model.steps() == steps; });
  return same ? fmt::to_string(steps) : "the top";
}

/// Returns "128 tokens", or "128 to 4096 tokens" if stacks differ.
std::string length_words(const std::vector<StackResult>& results) {
  const auto tokens = [](const StackResult& r) { return r.spec.input.tokens; };
  const auto [least, most] = std::ranges::minmax_element(results, {}, tokens);
  return tokens(*least) == tokens(*most) ? fmt::format("{} tokens", tokens(*most))
                                         : fmt::format("{} to {} tokens", tokens(*least), tokens(*most));
}

/// The variance at the top of every stack, and the gradient of the stream at both ends.
std::string gradient_rows(const std::vector<StackResult>& results) {
  const std::string at_top = top_words(results);
  dataset::TextTable rows({"placement", "input", "", fmt::format(">Var(x) at {}", at_top), ">‖∂loss/∂x‖ at 0",
                           fmt::format(">at {}", at_top), fmt::format(">0 / {}", at_top)});
  bool any = false;
  for (const StackResult& r : results) {
    const auto add = [&](const char* what, const Profile& profile) {
      const Curve* curve = of_stream(profile, Statistic::log_grad_sq);
      if (curve == nullptr) return;
      const std::size_t top = curve->value.size() - 1;
      any = true;
      const double ratio = std::exp((curve->value.front() - curve->value[top]) / 2.0);
      rows.add({config::placement_label(r.spec), input_of(r), what, top_value(profile, Statistic::variance),
                norm_at(*curve, 0), norm_at(*curve, top), number(ratio, "{:.3g}")});
    };
    add("predicted", r.prediction.profile);
    if (r.measurement) add("measured", r.measurement->profile);
    if (r.prediction.refusal.empty() && !r.prediction.gradient_refusal.empty()) {
      any = true;
      rows.add_note(config::placement_label(r.spec), "gradients are not predicted: " + r.prediction.gradient_refusal);
    }
  }
  if (!any) return {};
  return "\n" + rows.text() +
         "at: sublayers passed. Var(x): over features, mean over tokens; ‖∂loss/∂x‖: rms over tokens, geometric mean "
         "over seeds.\n";
}

/// Returns a hint if weights have a fixed standard deviation that the input's second moment does not match: the stream
/// and its gradients depend on their ratio. A recipe sets both as the models of its family do.
std::string scale_hint(const StackSpec& spec) {
  const InitSpec& init = spec.init;
  const bool mitchell = init.scheme == InitScheme::mitchell;
  if (!spec.recipe.empty() || (init.scheme != InitScheme::normal && !mitchell)) return {};
  if (spec.model.embedding_norm || init.embedding_std) return {};
  const double embedding = std::pow(drawn_embedding_stddev(spec), 2);
  const double ratio = spec.input.second_moment / embedding;
  if (ratio > 0.5 && ratio < 2.0) return {};
  return fmt::format(
      "weights are drawn {}, and the input has E[x²] = {:g}, embeddings would have {:g}: the stream and its gradients "
      "depend on that; set input.second_moment, or model.recipe",
      mitchell ? "by Mitchell's rule" : fmt::format("from N(0, {:g}²)", init.std), spec.input.second_moment, embedding);
}

/// Returns a note if the sum before norm C has more than twice the stream's largest entry: a number format must hold
/// it.
std::string sum_note(const StackResult& r) {
  const Profile& profile = r.measurement ? r.measurement->profile : r.prediction.profile;
  const auto largest = [&](Signal signal) {
    const Curve* curve = profile.find(Statistic::maximum, signal);
    return curve == nullptr || curve->value.empty() ? std::nan("") : std::ranges::max(curve->value);
  };
  const double sum = largest(Signal::sum), stream = largest(Signal::x_out);
  if (!(sum > 2.0 * stream)) return {};
  return fmt::format("largest |x|: {:.3g} in the sum before norm C, {:.3g} in the stream after it", sum, stream);
}

/// Returns the notes on all stacks, each once, with the stacks that it holds for.
std::string notes_on(const std::vector<StackResult>& results) {
  std::vector<std::pair<std::string, std::vector<std::string>>> notes;
  const auto add = [&](const StackResult& r, const std::string& note) {
    if (note.empty()) return;
    auto at = std::ranges::find(notes, note, [](const auto& one) { return one.first; });
    if (at == notes.end()) at = notes.insert(at, {note, {}});
    at->second.push_back(fmt::format("{}, {}", config::placement_label(r.spec), input_of(r)));
  };
  for (const StackResult& r : results) {
    add(r, sum_note(r));
    add(r, scale_hint(r.spec));
    if (!r.prediction.left_out.empty()) add(r, "left out: " + r.prediction.left_out);
    const std::vector<std::string> imprecise = judge::imprecise_names(r.prediction);
    if (imprecise.empty()) continue;
    add(r, fmt::format("less precise than wanted (theory.gradient_tolerance = {:g}): {}",
                       r.prediction.gradient_tolerance, fmt::join(imprecise, "; ")));
  }
  std::string lines;
  for (const auto& [note, stacks] : notes) {
    const bool all = stacks.size() == results.size() && stacks.size() > 1;
    lines += fmt::format("{}: {}\n", all ? "all stacks" : fmt::format("{}", fmt::join(stacks, "; ")), note);
  }
  return lines;
}

std::string verdict_words(judge::Verdict verdict) {
  const auto shade = verdict == judge::Verdict::agrees      ? fmt::terminal_color::green
                     : verdict == judge::Verdict::disagrees ? fmt::terminal_color::red
                                                            : fmt::terminal_color::yellow;
  return fmt::format(fmt::fg(shade), "{}", judge::name_of(verdict));
}

}  // namespace

std::string verdict_table(const std::vector<StackResult>& results, double familywise_error) {
  const bool measured = results.front().measurement.has_value();
  std::vector<std::string> head{"placement", "input", ">input E[x²]", ">top E[x²] predicted"};
  if (measured) head.insert(head.end(), {">measured", "verdict"});
  dataset::TextTable rows(head);
  for (const StackResult& r : results) {
    std::vector<std::string> row{
        config::placement_label(r.spec), input_of(r), input_value(r),
        r.prediction.refusal.empty() ? top_value(r.prediction.profile, Statistic::second_moment) : "refused"};
    if (measured) {
      row.push_back(r.measurement->diverged_seeds > 0
                        ? fmt::format("diverged at sublayer {}", r.measurement->diverged_at)
                        : top_value(r.measurement->profile, Statistic::second_moment));
      row.push_back(verdict_words(r.judged.verdict));
    }
    rows.add(std::move(row));
    const std::string& why = measured ? r.judged.reason : r.prediction.refusal;
    if (!why.empty()) rows.add_note("", why);
  }
  return rows.text() +
         fmt::format(
             "E[x²]: second moment of the stream at depth 0 (input) and {} (top), in sublayers, of sequences "
             "of {} (input.tokens), ± standard error.\n",
             top_words(results), length_words(results)) +
         notes_on(results) + gradient_rows(results) + (measured ? worst_tests(results, familywise_error) : "");
}

}  // namespace periscope::stacks
