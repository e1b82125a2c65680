#include <fmt/color.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "experiments/engine/result/text_table.h"
#include "experiments/engine/run/regime.h"
#include "experiments/engine/run/stacks.h"
#include "sim/base/mapped.h"

namespace periscope::stacks {
namespace {

const Curve* of_stream(const Profile& profile, Statistic statistic) {
  const Curve* curve = profile.find(statistic, Signal::x_out);
  return curve == nullptr || curve->value.empty() ? nullptr : curve;
}

/// Formats the first or last value of a curve with its standard error; "–" for a null curve. With `is_log_square`,
/// converts the logarithm of a squared norm to the norm.
std::string end_of(const Curve* curve, bool last, bool is_log_square = false) {
  if (curve == nullptr) return "–";
  double value = last ? curve->value.back() : curve->value.front(), error = std::nan("");
  if (!curve->standard_error.empty()) error = last ? curve->standard_error.back() : curve->standard_error.front();
  if (is_log_square) {
    value = std::exp(value / 2.0);
    error *= value / 2.0;
  }
  return dataset::with_error(value, error);
}

/// Returns a hint if weights have a fixed standard deviation and the input's second moment does not match it.
std::string scale_hint(const StackSpec& spec) {
  const InitSpec& init = spec.init;
  const bool fixed = init.scheme == InitScheme::normal || init.scheme == InitScheme::mitchell;
  if (!fixed || !spec.recipe.empty() || spec.model.embedding_norm || init.embedding_std) return {};
  const double embedding = std::pow(drawn_embedding_stddev(spec), 2);
  const double ratio = spec.input.second_moment / embedding;
  if (ratio > 0.5 && ratio < 2.0) return {};
  return fmt::format(
      "the input has E[x²] = {:g}, but embeddings of init.scheme = {} would have {:g}, which changes the stream and "
      "its gradients; set input.second_moment or model.recipe",
      spec.input.second_moment, init_scheme_names[static_cast<std::size_t>(init.scheme)], embedding);
}

/// Returns a note if the largest entry before norm C, which formats must represent, is more than twice the stream's.
std::string sum_note(const Profile& profile) {
  const auto largest = [&](Signal signal) {
    const Curve* curve = profile.find(Statistic::maximum, signal);
    return curve == nullptr || curve->value.empty() ? std::nan("") : std::ranges::max(curve->value);
  };
  const double sum = largest(Signal::sum), stream = largest(Signal::x_out);
  if (!(sum > 2.0 * stream)) return {};
  return fmt::format("largest |x|: {:.3g} in the sum before norm C, {:.3g} in the stream after it", sum, stream);
}

/// Returns notes on a stack. `profile` is the measured profile, or the predicted one if nothing was measured.
std::vector<std::string> notes_on(const StackResult& r, const Profile& profile) {
  const theory::Prediction& theory = r.prediction;
  std::vector<std::string> notes{sum_note(profile), scale_hint(r.spec)};
  if (!theory.left_out.empty()) notes.push_back("prediction limited: " + theory.left_out);
  const std::vector<std::string> imprecise = judge::imprecise_names(theory);
  if (!imprecise.empty()) {
    notes.push_back(fmt::format("prediction errors above theory.gradient_tolerance = {:g}: {}",
                                theory.gradient_tolerance, fmt::join(imprecise, "; ")));
  }
  if (theory.unsupported.empty() && !theory.gradient_unsupported.empty()) {
    notes.push_back("gradients are not predicted: " + theory.gradient_unsupported);
  }
  std::erase(notes, "");
  return notes;
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
  const auto range = [&](int (*of)(const StackSpec&)) {
    return range_of(mapped(results, [&](const StackResult& r) { return 1.0 * of(r.spec); }));
  };
  const std::string top = range([](const StackSpec& s) { return s.model.steps(); });
  std::vector<std::string> titles{"placement", "input", ">input E[x²]", ">top E[x²] predicted"};
  if (measured) titles.insert(titles.end(), {">measured", "verdict"});
  dataset::TextTable rows(titles);
  dataset::TextTable gradients(
      {"placement", "input", "", ">Var(x) at " + top, ">‖∂loss/∂x‖ at 0", ">at " + top, fmt::format(">0 / {}", top)});
  dataset::TextTable worst(
      {"placement", "input", "nearest to rejection", ">excess", ">critical", ">detectable error: worst", ">median"});
  std::map<std::string, std::vector<std::string>> notes;  // values: the stacks to which a note applies
  bool any_gradient = false;
  std::size_t tests = 0;
  for (const StackResult& r : results) {
    const std::string placement = config::placement_label(r.spec), input(name_of(r.spec.input.kind));
    const theory::Prediction& theory = r.prediction;
    const Profile& profile = measured ? r.measurement->profile : theory.profile;
    const auto top_of = [](const Profile& p) { return end_of(of_stream(p, Statistic::second_moment), true); };
    std::vector<std::string> row{placement, input, end_of(of_stream(profile, Statistic::second_moment), false),
                                 theory.unsupported.empty() ? top_of(theory.profile) : "unsupported"};
    if (measured) {
      row.push_back(r.measurement->diverged_seeds > 0
                        ? fmt::format("diverged at sublayer {}", r.measurement->diverged_at)
                        : top_of(profile));
      row.push_back(verdict_words(r.judged.verdict));
    }
    rows.add(std::move(row));
    const std::string& why = measured ? r.judged.reason : theory.unsupported;
    if (!why.empty()) rows.add_note("", why);

    for (const std::string& note : notes_on(r, profile)) notes[note].push_back(fmt::format("{}, {}", placement, input));

    const auto add_gradient = [&](const char* what, const Profile& p) {
      const Curve* curve = of_stream(p, Statistic::log_grad_sq);
      if (curve == nullptr) return;
      any_gradient = true;
      const double ratio = std::exp((curve->value.front() - curve->value.back()) / 2.0);
      gradients.add({placement, input, what, end_of(of_stream(p, Statistic::variance), true),
                     end_of(curve, false, true), end_of(curve, true, true), dataset::number(ratio, "{:.3g}")});
    };
    add_gradient("predicted", theory.profile);
    if (measured) add_gradient("measured", profile);

    if (r.judged.worst < 0) continue;
    const judge::Test& test = r.judged.worst_test();
    tests += r.judged.tests.size();
    worst.add({placement, input, test.name(), fmt::format("{:.1f}", test.excess()),
               fmt::format("{:.1f}", test.critical), judge::error_words(r.judged.power.worst),
               judge::error_words(r.judged.power.median)});
  }

  std::string text = rows.text();
  text += fmt::format(
      "E[x²]: second moment of the stream at depth 0 (input) and {} (top), ± standard error; depth counts sublayers; "
      "sequence length {} (input.tokens).\n",
      top, range([](const StackSpec& s) { return s.input.tokens; }));
  for (const auto& [words, at] : notes) {
    const bool all = at.size() == results.size() && at.size() > 1;
    text += fmt::format("{}: {}\n", all ? "all stacks" : fmt::format("{}", fmt::join(at, "; ")), words);
  }
  if (any_gradient) {
    text += "\n" + gradients.text() +
            "at: depth, in sublayers. Var(x): over features, mean over tokens; ‖∂loss/∂x‖: rms over tokens, geometric "
            "mean over seeds.\n";
  }
  if (tests > 0) {
    text += fmt::format(
        "\n{}excess: |measured − predicted| beyond the tolerated bias, in standard errors; critical: Student's t "
        "at a familywise error of {:g} over {} tests.\ndetectable error: smallest error that a test rejects with 95 % "
        "probability, over all tests of the stack; above a statistic's limit (see periscope list), the verdict is "
        "inconclusive.\n",
        worst.text(), familywise_error, tests);
  }
  return text;
}

}  // namespace periscope::stacks
