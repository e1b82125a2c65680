#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/engine/result/text_table.h"
#include "experiments/studies/formats/formats.h"

namespace periscope::formats {
namespace {

std::string number(const RunningMoments& m, const char* format) {
  return dataset::with_error(m.mean(), m.standard_error(), format, format);
}

std::string overflow_words(const Overflow& overflow, int seeds) {
  if (overflow.seeds == 0) return "-";
  return fmt::format("{} {} ({}/{} seeds)", name_of(overflow.first.signal), overflow.first.sublayer, overflow.seeds,
                     seeds);
}

std::string certificate_words(const std::optional<FormatCertificate>& c) {
  if (!c) return "";
  return c->certified ? "impossible" : fmt::format("{} {}", name_of(c->first.signal), c->first.sublayer);
}

std::string formats_words(const FormatsConfig& config) {
  std::string words = fmt::format(
      "stored in the format: {}; other tensors in {}. passes: {}; sums: {}; rounding: {}; entries that share a scale: "
      "{}",
      config.covers.empty() ? "all tensors (formats of 8 bits or fewer: inputs and weights of matrices)"
                            : fmt::format("{}", fmt::join(config.covers, ", ")),
      config.rest, pass_names[config.backward_only ? 1 : 0], accumulate_names[config.accumulates_in_format ? 1 : 0],
      rounding_names[config.stochastic ? 1 : 0], scale_over_names[static_cast<std::size_t>(config.scale)]);
  for (const std::string& word : config.format) {
    const std::optional<TensorFormat> format = find_tensor_format(word);
    if (!format || !format->has_block_scale()) continue;
    words += fmt::format(", {}: blocks of {}, sums in f32", word, config.block > 0 ? config.block : format->block);
  }
  return words + ".\n";
}

/// Returns a number with its unit; "overflow" for −∞ and NaN, which signals and weights that are not finite give.
std::string finite_text(double value, const char* format) {
  return std::isnan(value) || value < -1e300 ? "overflow" : dataset::number(value, format);
}
std::string decibel_text(double sqnr) { return finite_text(sqnr, "{:.1f}"); }

/// 10 log10 3: below √3 times its noise, a gradient makes training in the format less effective (arXiv 2505.19115).
constexpr double gradient_threshold = 4.771;

/// A signal or product with the lowest SQNR, in dB.
struct Worst {
  std::string name = {};
  double sqnr = std::numeric_limits<double>::infinity();
  double predicted = std::numeric_limits<double>::quiet_NaN();

  [[nodiscard]] std::string text() const {
    return name.empty() ? "" : fmt::format("{} ({})", decibel_text(sqnr), name);
  }
};

/// Returns −∞ for NaN, the SQNR of a signal that is not finite.
double or_lowest(double sqnr) { return std::isnan(sqnr) ? -std::numeric_limits<double>::infinity() : sqnr; }

Worst worst_branch(const Variant& v) {
  Worst worst;
  const std::vector<RunningMoments>& places = v.numbers.at({{Pass::forward, Signal::f_out}, Measure::sqnr});
  for (std::size_t p = 1; p + 1 < places.size(); ++p) {
    if (!(or_lowest(places[p].mean()) < worst.sqnr)) continue;
    worst.sqnr = or_lowest(places[p].mean());
    worst.name = fmt::format("{} {}", p % 2 == 1 ? "attention" : "MLP", (p - 1) / 2);
  }
  return worst;
}

Worst worst_product(const Variant& v) {
  Worst worst;
  for (const auto& [at, layers] : v.products) {
    const auto& [matrix, measure] = at;
    if (measure != ProductMeasure::product_sqnr) continue;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      const bool exists = !std::isnan(v.products.at({matrix, ProductMeasure::weight_underflow})[layer].mean());
      if (!exists || !(or_lowest(layers[layer].mean()) < worst.sqnr)) continue;
      worst.sqnr = or_lowest(layers[layer].mean());
      worst.name = is_of_layer(matrix) ? fmt::format("{} {}", name_of(matrix), layer) : name_of(matrix);
      const auto predicted = v.products.find({matrix, ProductMeasure::product_sqnr_predicted});
      if (predicted != v.products.end()) worst.predicted = predicted->second[layer].mean();
    }
  }
  return worst;
}

double largest_underflow(const Variant& v) {
  double largest = 0.0;
  for (const auto& [at, layers] : v.products) {
    if (at.second != ProductMeasure::weight_underflow) continue;
    for (const RunningMoments& layer : layers) largest = std::max(largest, layer.mean());
  }
  return largest;
}

}  // namespace

std::string table(const std::vector<FormatsStack>& stacks, const FormatsConfig& config) {
  dataset::TextTable verdicts(
      {"placement", "format", "law", "against f64", "overflow", "backward", "could overflow", "massive"});
  dataset::TextTable numbers({"placement", "format", ">drift of E[x²]", ">stream dB", ">predicted", ">branch dB",
                              ">gradient dB", ">massive costs"});
  for (const FormatsStack& stack : stacks) {
    const auto top = static_cast<std::size_t>(stack.spec.model.sublayers());
    for (const FormatResult& format : stack.formats) {
      const Variant& v = format.variants.front();
      const auto gradient = v.numbers.find({Site{Pass::backward, Signal::x_out}, Measure::sqnr});
      RunningMoments branches;
      for (std::size_t p = 1; p <= top; ++p) {
        branches.add(v.numbers.at({Site{Pass::forward, Signal::f_out}, Measure::sqnr})[p].mean());
      }
      const std::string placement = config::placement_label(stack.spec);
      std::vector<std::string> verdict{placement, format.name, std::string(judge::name_of(format.law.verdict))};
      if (!format.is_f64()) {
        verdict.insert(verdict.end(), {std::string(judge::name_of(format.drift.verdict)),
                                       overflow_words(v.forward, stack.seeds), overflow_words(v.backward, stack.seeds),
                                       certificate_words(format.certificate), massive_words(format.massive)});
        const RunningMoments& drift = v.numbers.at({stream_site, Measure::second_moment_drift})[top];
        numbers.add(
            {placement, format.name,
             dataset::with_error(100.0 * drift.mean(), 100.0 * drift.standard_error(), "{:+.3g}", "{:.1g}") + " %",
             number(v.numbers.at({stream_site, Measure::sqnr})[top], "{:.2f}"),
             v.predicted.empty() ? "" : dataset::number(v.predicted.back().mean(), "{:.2f}"),
             dataset::number(branches.mean(), "{:.1f}"),
             gradient == v.numbers.end() ? "" : number(gradient->second.front(), "{:.1f}"),
             format.branch_cost.count() > 0 ? number(format.branch_cost, "{:.1f}") : ""});
      }
      verdicts.add(std::move(verdict));
      if (!format.law.reason.empty()) verdicts.add_note("", format.law.reason);
    }
  }
  return verdicts.text() + "\n" + numbers.text() +
         "law: second moment and variance of the stream over depth against theory at this width.\nagainst f64: both "
         "against the same seeds in f64, tolerating one rounding of the stream.\ndrift: relative change of the "
         "stream's "
         "mean square after the last sublayer from the same seeds in f64.\ndB: signal-to-quantisation-noise ratios of "
         "the stream after the last sublayer, of modules' outputs (mean over sublayers), and of the input's gradient; "
         "massive costs: dB that massive input features (formats.massive) take from modules' outputs.\ncould overflow: "
         "first signal that may overflow by the certificate of the first seed's weights; empty if every number has a "
         "scale.\n" +
         formats_words(config);
}

std::string checkpoint_table(const CheckpointResult& result, const FormatsConfig& config) {
  dataset::TextTable signals(
      {"weights", "format", ">stream dB", ">predicted", "worst branch dB", ">gradient dB", ">below √3", "overflow"});
  dataset::TextTable others(
      {"weights", "format", ">drift of E[x²]", ">weights lost", "worst product dB", ">predicted"});
  for (const FormatsStack& stack : result.stacks) {
    const auto top = static_cast<std::size_t>(stack.spec.model.steps());
    for (const FormatResult& format : stack.formats) {
      if (format.is_f64()) continue;
      const Variant& v = format.variants.front();
      const auto at = [&](const Site& site, Measure measure, std::size_t place) {
        return v.numbers.at({site, measure})[place].mean();
      };
      const bool backward = !v.layer_gradients.empty();
      const auto below = std::ranges::count_if(v.layer_gradients, [](const RunningMoments& layer) {
        return !(layer.mean() >= gradient_threshold);  // also counts NaN
      });
      const Worst product = worst_product(v);
      const bool impossible = format.certificate && format.certificate->certified && v.forward.seeds == 0;
      signals.add({stack.spec.label, format.name, decibel_text(at(stream_site, Measure::sqnr, top)),
                   v.predicted.empty() ? "" : dataset::number(v.predicted.back().mean(), "{:.1f}"),
                   worst_branch(v).text(),
                   backward ? decibel_text(at({Pass::backward, Signal::x_out}, Measure::sqnr, 0)) : "",
                   backward ? fmt::format("{}/{}", below, v.layer_gradients.size()) : "",
                   impossible ? "impossible" : overflow_words(v.forward, 1)});
      others.add({stack.spec.label, format.name,
                  finite_text(100.0 * at(stream_site, Measure::second_moment_drift, top), "{:+.3g} %"),
                  dataset::number(100.0 * largest_underflow(v), "{:.2g} %"), product.text(),
                  dataset::number(product.predicted, "{:.1f}")});
    }
  }
  std::string words =
      signals.text() + "\n" + others.text() +
      "random: Gaussian weights with the root mean square of every given matrix, on the same tokens.\n"
      "dB: signal-to-quantisation-noise ratios (SQNR) against FP64, in a whole pass, of the stream after the last "
      "sublayer, the module output with the lowest SQNR (with its layer), and the input's gradient. predicted: T27, "
      "exact for isotropic gradients. below √3: layers in which the gradient of the matrices is less than √3 times its "
      "noise (4.77 dB). overflow: first signal that is not finite; impossible if certified for all inputs.\n"
      "drift: relative change of the stream's mean square after the last sublayer. lost: largest share of a matrix "
      "that "
      "is rounded to 0. worst product: the product x Wᵀ with the lowest SQNR if its input is exact; predicted: for "
      "Gaussian W (T26).\n" +
      formats_words(config);
  for (const std::string& note : result.notes) words += "note: " + note + "\n";
  return words;
}

}  // namespace periscope::formats
