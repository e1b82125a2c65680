#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numbers>
#include <set>

#include "experiments/engine/result/json_image.h"
#include "tests/formats/planted.h"
#include "tests/support/doctest.h"
#include "theory/predict/quantization.h"

/// Every column of `formats`, computed again from planted raw numbers.
namespace periscope::testing {
namespace {

using formats::Measure;

/// A column of a result file, by its indices.
class File {
 public:
  explicit File(dataset::Dataset data) : data_(std::move(data)) {}

  [[nodiscard]] double number(const std::string& name, const std::vector<std::size_t>& at) const {
    const dataset::Values& values = variable(name).values;
    REQUIRE(offset(name, at) < dataset::size_of(values));
    return dataset::number_at(values, offset(name, at));
  }
  [[nodiscard]] std::string word(const std::string& name, const std::vector<std::size_t>& at) const {
    return std::get<std::vector<std::string>>(variable(name).values).at(offset(name, at));
  }
  [[nodiscard]] std::size_t index(const std::string& dimension, const std::string& label) const {
    const auto& labels = std::get<std::vector<std::string>>(variable(dimension).values);
    return static_cast<std::size_t>(std::ranges::find(labels, label) - labels.begin());
  }
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> names;
    for (const dataset::Column& v : data_.columns) names.insert(v.name);
    return names;
  }

 private:
  [[nodiscard]] const dataset::Column& variable(const std::string& name) const {
    const dataset::Column* found = data_.find(name);
    INFO(name);
    REQUIRE(found != nullptr);
    return *found;
  }
  [[nodiscard]] std::size_t offset(const std::string& name, const std::vector<std::size_t>& at) const {
    const std::vector<std::string>& dimensions = variable(name).dimensions;
    REQUIRE(dimensions.size() == at.size());
    std::size_t offset = 0;
    for (std::size_t d = 0; d < at.size(); ++d) {
      for (const auto& [dimension, length, free] : data_.dimensions) {
        if (dimension != dimensions[d]) continue;
        REQUIRE(at[d] < length);
        offset = offset * length + at[d];
      }
    }
    return offset;
  }

  dataset::Dataset data_;
};

/// Two ways to add up the same dozen numbers, none far from 1, differ by less.
void check_number(const std::string& column, double found, double expected) {
  INFO(column, ": ", found, ", expected ", expected);
  const bool same = std::abs(found - expected) <= 1e-11 * (1.0 + std::abs(expected));
  CHECK(same);
}
void check_absent(const std::string& column, double found) {
  INFO(column, ": ", found);
  CHECK(std::isnan(found));
}

/// An agreement whose cells, and all that is said of them, are numbers of their own; the worst is the second.
judge::Agreement planted_agreement(std::size_t from, Statistic statistic) {
  judge::Agreement agreement;
  agreement.verdict = judge::Verdict::inconclusive;
  agreement.reason = "reason " + std::to_string(from);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t at = from + 10 * i;
    agreement.cells.push_back({.statistic = statistic,
                               .index = static_cast<int>(i + from % 2),
                               .measured = 2.0 + irregular(at),
                               .measured_error = 0.01 * irregular(at + 1),
                               .predicted = irregular(at + 2),
                               .predicted_error = 0.02 * irregular(at + 3),
                               .allowance = 0.1 * irregular(at + 4)});
  }
  agreement.worst = 1;
  agreement.critical = irregular(from + 5);
  agreement.power = {.worst = irregular(from + 6), .median = irregular(from + 7), .statistics = {}};
  return agreement;
}

void check_agreement(const File& file, const std::string& prefix, const judge::Agreement& a,
                     const std::vector<std::size_t>& at) {
  const judge::Cell& worst = a.cells.at(1);
  if (prefix == "drift") {
    CHECK(file.word("drift_verdict", at) == "inconclusive");
    CHECK(file.word("drift_reason", at) == a.reason);
    CHECK(file.word("drift_worst", at) == "variance x_out[" + std::to_string(worst.index) + "]");
    check_number("drift_worst_value", file.number("drift_worst_value", at), worst.measured);
    check_number("drift_worst_stderr", file.number("drift_worst_stderr", at), worst.measured_error);
    check_number("drift_power", file.number("drift_power", at), a.power.worst);
    return;
  }
  CHECK(file.word("verdict", at) == "inconclusive");
  CHECK(file.word("verdict_reason", at) == a.reason);
  CHECK(file.word("worst_cell", at) == "second_moment x_out[" + std::to_string(worst.index) + "]");
  const double error = std::sqrt(std::pow(worst.measured_error, 2) + std::pow(worst.predicted_error, 2));
  check_number("worst_z", file.number("worst_z", at), (worst.measured - worst.predicted) / error);
  check_number("worst_excess", file.number("worst_excess", at),
               (worst.measured - worst.predicted - worst.allowance) / error);
  check_number("worst_critical", file.number("worst_critical", at), a.critical);
  check_number("power_worst", file.number("power_worst", at), a.power.worst);
  check_number("power_median", file.number("power_median", at), a.power.median);
}

/// T18: √(2 ln n) and what it lacks, of σ, for the largest of n = 2·tokens·width numbers of both signs.
double largest_of(const StackSpec& spec, double second_moment) {
  const double n = 2.0 * spec.input.tokens * spec.model.width;
  const double root = std::sqrt(2.0 * std::log(n));
  return std::sqrt(second_moment) * (root - (std::log(std::log(n)) + std::log(4.0 * std::numbers::pi)) / (2.0 * root));
}

/// T26 of LeCun's matrices, in dB: mean over those of a sublayer that read the stream (width 32) or something else.
double weights_sqnr(const std::string& format, const std::vector<int>& fan_ins) {
  double mean = 0.0;
  for (const int fan_in : fan_ins) {
    const double noise = format == "int8"
                             ? theory::integer_noise(127, static_cast<std::size_t>(fan_in))
                             : theory::floating_noise(find_tensor_format(format)->floating, 1.0 / std::sqrt(fan_in));
    mean -= 10.0 * std::log10(noise) / static_cast<double>(fan_ins.size());
  }
  return mean;
}

struct Filled : PlantedReadings {
  Filled() {
    add_all();
    for (std::size_t s = 0; s < 2; ++s) {
      formats::FormatsStack& stack = result.stacks[s];
      Curve& q = stack.prediction.profile.curves[{Statistic::second_moment, Signal::x_out}];
      for (std::size_t depth = 0; depth + 1 < places(s); ++depth) {
        q.value.push_back(irregular(9000 + 50 * s + depth));
        q.standard_error.push_back(0.01 * irregular(9100 + 50 * s + depth));
      }
      if (s == 1) stack.prediction.profile.curves[{Statistic::maximum, Signal::sum}].value = {std::nan(""), 1234.5};
      for (std::size_t f = 0; f < formats; ++f) {
        formats::FormatResult& format = stack.formats[f];
        const std::size_t from = 1000 * s + 100 * f;
        format.law = planted_agreement(from, Statistic::second_moment);
        if (f > 0) format.drift = planted_agreement(from + 50, Statistic::variance);
        format.stream_rounding = 0.001 * irregular(from + 90);
        for (std::size_t v = 0; v < variants; ++v) {
          const auto overflow = [&](std::size_t k) {
            return formats::Overflow{.seeds = static_cast<int>(1 + k + 2 * f),
                                     .first = {true, static_cast<int>(k + s), k == 0 ? Signal::hidden : Signal::v},
                                     .seed = 70 + k + f + v};
          };
          if (v == 1 && f > 0) format.variants[v].forward = overflow(0);
          if (v == 0 && f > 0) format.variants[v].backward = overflow(1);
        }
      }
      stack.formats[1].certificate =
          formats::FormatCertificate{.certified = s == 1, .signal = "sum", .sublayer = 1, .bound = irregular(500 + s)};
    }
  }
};

TEST_CASE("columns of formats: what is said of a stack, a format and its verdicts") {
  Filled planted;
  const File file(formats::dataset_of(planted.config, planted.result));
  for (std::size_t s = 0; s < 2; ++s) {
    const formats::FormatsStack& stack = planted.result.stacks[s];
    CHECK(file.word("placement", {s}) == (s == 0 ? "pre" : "peri"));
    CHECK(file.word("input", {s}) == "gaussian");
    const Curve& q = stack.prediction.profile.curves.at({Statistic::second_moment, Signal::x_out});
    double largest = 0.0;
    for (std::size_t depth = 0; depth < 5; ++depth) {
      if (depth + 1 >= planted.places(s)) {
        check_absent("second_moment_predicted", file.number("second_moment_predicted", {s, depth}));
        continue;
      }
      const double maximum = largest_of(stack.spec, q.value[depth]);
      largest = std::max(largest, maximum);
      check_number("second_moment_predicted", file.number("second_moment_predicted", {s, depth}), q.value[depth]);
      check_number("second_moment_predicted_stderr", file.number("second_moment_predicted_stderr", {s, depth}),
                   q.standard_error[depth]);
      check_number("maximum_predicted", file.number("maximum_predicted", {s, depth}), maximum);
    }
    for (std::size_t f = 0; f < PlantedReadings::formats; ++f) {
      const formats::FormatResult& format = stack.formats[f];
      check_agreement(file, "law", format.law, {s, f});
      if (f == 0) {
        check_absent("drift_worst_value", file.number("drift_worst_value", {s, f}));
        continue;
      }
      check_agreement(file, "drift", format.drift, {s, f});
      check_number("drift_allowance", file.number("drift_allowance", {s, f}), format.stream_rounding);
      if (f == 1) {
        check_number("margin_predicted", file.number("margin_predicted", {s, f}),
                     65504.0 / (s == 1 ? 1234.5 : largest));
      } else {
        check_absent("margin_predicted", file.number("margin_predicted", {s, f}));
      }
      const std::vector<int> attention{32, 32, 32, 32};
      const std::vector<int> mlp{32, 32, 64};
      for (std::size_t place = 0; place < 6; ++place) {
        const double found = file.number("weights_sqnr_predicted", {s, f, place});
        if (place == 0 || place + 1 >= planted.places(s)) {
          check_absent("weights_sqnr_predicted", found);
        } else {
          check_number("weights_sqnr_predicted", found, weights_sqnr(format.name, place % 2 == 1 ? attention : mlp));
        }
      }
    }
    CHECK(file.number("certified", {s, 1}) == static_cast<double>(s));
    check_absent("certified", file.number("certified", {s, 2}));
    if (s == 0) {
      CHECK(file.word("certificate_signal", {s, 1}) == "sum");
      CHECK(file.number("certificate_sublayer", {s, 1}) == 1.0);
      check_number("certificate_bound", file.number("certificate_bound", {s, 1}), irregular(500));
    } else {
      check_absent("certificate_bound", file.number("certificate_bound", {s, 1}));
    }
  }
}

TEST_CASE("columns of formats: what massive features cost, and its words at the level of all tests") {
  Filled planted;
  // Branch: mean over sublayers; stream: behind the last one. Two stacks in two formats are four tests.
  const double level = -std::expm1(std::log1p(-planted.config.agreement.familywise_error) / 4.0);
  const double limit = judge::critical_excess(static_cast<double>(PlantedReadings::seeds) - 1.0, level);
  for (std::size_t s = 0; s < 2; ++s) {
    for (std::size_t f = 1; f < PlantedReadings::formats; ++f) {
      const std::size_t last = planted.places(s) - 2;
      const formats::MassiveEffect& effect = planted.result.stacks[s].formats[f].massive;
      for (const bool branch : {true, false}) {
        const auto losses = branch ? planted.massive_loss(s, f, Signal::f_out, 1, last)
                                   : planted.massive_loss(s, f, Signal::x_out, last, last);
        const MeanAndError by_hand = mean_and_error(losses);
        const RunningMoments& found = branch ? effect.branch : effect.stream;
        check_number(branch ? "massive branch" : "massive stream", found.mean(), by_hand.mean);
        check_number(branch ? "massive branch" : "massive stream", found.standard_error(), by_hand.error);
      }
    }
  }
  // t a hundredth above and below the limit, at both signs.
  const auto planted_effect = [&](double t) {
    RunningMoments moments;
    const std::vector<double> about{-2.0, -1.0, 0.0, 1.0, 2.0};  // variance 2.5, standard error √0.5
    for (const double d : about) moments.add(t * std::sqrt(0.5) + d);
    return moments;
  };
  auto& stacks = planted.result.stacks;
  stacks[0].formats[1].massive = {planted_effect(1.01 * limit), planted_effect(-0.99 * limit)};
  stacks[0].formats[2].massive = {planted_effect(0.99 * limit), planted_effect(-1.01 * limit)};
  const File file(formats::dataset_of(planted.config, planted.result));
  CHECK(file.word("massive_branch", {0, 1}) == "hurts");
  CHECK(file.word("massive_stream", {0, 1}) == "no difference seen");
  CHECK(file.word("massive_branch", {0, 2}) == "no difference seen");
  CHECK(file.word("massive_stream", {0, 2}) == "helps");
  check_number("massive_branch_cost", file.number("massive_branch_cost", {0, 1}), 1.01 * limit * std::sqrt(0.5));
  check_number("massive_branch_cost_stderr", file.number("massive_branch_cost_stderr", {0, 1}), std::sqrt(0.5));
  check_number("massive_stream_cost", file.number("massive_stream_cost", {0, 2}), -1.01 * limit * std::sqrt(0.5));
  check_number("massive_stream_cost_stderr", file.number("massive_stream_cost_stderr", {0, 2}), std::sqrt(0.5));
  check_absent("massive_branch_cost", file.number("massive_branch_cost", {0, 0}));
  // The table says the same, of the branch.
  const std::string text = formats::table(planted.result, planted.config);
  CHECK(text.find("hurts") != std::string::npos);
  CHECK(text.find("± 0.7") != std::string::npos);
  CHECK(text.find("no difference") != std::string::npos);
}

TEST_CASE("columns of formats: every measure at every place, its drift, and their errors over seeds") {
  Filled planted;
  const File file(formats::dataset_of(planted.config, planted.result));
  for (std::size_t s = 0; s < 2; ++s) {
    const auto& sites = planted.result.stacks[s].sites;
    for (std::size_t f = 0; f < PlantedReadings::formats; ++f) {
      for (std::size_t v = 0; v < PlantedReadings::variants; ++v) {
        for (std::size_t k = 0; k < sites.size(); ++k) {
          const std::string label =
              (sites[k].pass == Pass::backward ? "grad " : "") + std::string(name_of(sites[k].signal));
          const std::size_t site = file.index("site", label);
          for (std::size_t p = 0; p < planted.places(s); ++p) {
            const auto check = [&](const std::string& column, const std::vector<double>& raw) {
              const MeanAndError by_hand = mean_and_error(raw);
              check_number(column, file.number(column, {s, f, v, site, p}), by_hand.mean);
              check_number(column + "_stderr", file.number(column + "_stderr", {s, f, v, site, p}), by_hand.error);
            };
            constexpr std::array<const char*, 8> names{"sqnr",     "error",   "angle",     "second_moment",
                                                       "variance", "maximum", "underflow", "overflow"};
            for (std::size_t m = 0; m < names.size(); ++m) {
              check(names[m], planted.raw(s, f, v, k, static_cast<Measure>(m), p));
            }
            check("second_moment_drift", planted.drift(s, f, v, k, Measure::second_moment, p));
            check("variance_drift", planted.drift(s, f, v, k, Measure::variance, p));
          }
        }
      }
    }
  }
}

TEST_CASE("columns of formats: single roundings by part, the predicted SQNR by depth, overflows") {
  Filled planted;
  const File file(formats::dataset_of(planted.config, planted.result));
  for (std::size_t s = 0; s < 2; ++s) {
    const std::size_t places = planted.places(s);
    for (std::size_t f = 1; f < PlantedReadings::formats; ++f) {
      const auto over_seeds = [&](std::size_t v, auto number) {
        std::vector<double> values;
        for (const auto& reading : planted.readings[s]) values.push_back(number(reading.passes[v][f]));
        return mean_and_error(values);
      };
      for (std::size_t part = 0; part < formats::part_names.size(); ++part) {
        for (std::size_t p = 0; p < places; ++p) {
          const MeanAndError by_hand =
              over_seeds(0, [&](const formats::PassReading& pass) { return pass.rounding[part * places + p]; });
          check_number("rounding_sqnr", file.number("rounding_sqnr", {s, f, part, p}), by_hand.mean);
          check_number("rounding_sqnr_stderr", file.number("rounding_sqnr_stderr", {s, f, part, p}), by_hand.error);
        }
      }
      for (std::size_t v = 0; v < PlantedReadings::variants; ++v) {
        for (std::size_t depth = 0; depth + 1 < places; ++depth) {
          const MeanAndError by_hand =
              over_seeds(v, [&](const formats::PassReading& pass) { return pass.predicted[depth]; });
          check_number("stream_sqnr_predicted", file.number("stream_sqnr_predicted", {s, f, v, depth}), by_hand.mean);
          check_number("stream_sqnr_predicted_stderr", file.number("stream_sqnr_predicted_stderr", {s, f, v, depth}),
                       by_hand.error);
        }
      }
      const auto check_overflow = [&](const std::string& name, std::size_t v, std::size_t k, const char* signal) {
        INFO(name);
        CHECK(file.number(name + "_seeds", {s, f, v}) == static_cast<double>(1 + k + 2 * f));
        CHECK(file.word(name + "_signal", {s, f, v}) == signal);
        CHECK(file.number(name + "_sublayer", {s, f, v}) == static_cast<double>(k + s));
        CHECK(file.number(name + "_seed", {s, f, v}) == static_cast<double>(70 + k + f + v));
        CHECK(file.number(name + "_seeds", {s, f, 1 - v}) == 0.0);
        CHECK(file.word(name + "_signal", {s, f, 1 - v}).empty());
      };
      check_overflow("overflow", 1, 0, "hidden");
      check_overflow("grad_overflow", 0, 1, "v");
    }
  }
}

TEST_CASE("columns of formats: the coordinates, and no column that these tests leave out") {
  Filled planted;
  const File file(formats::dataset_of(planted.config, planted.result));
  CHECK(file.word("format", {0}) == "fp64");
  CHECK(file.word("format", {2}) == "int8");
  CHECK(file.word("features", {0}) == "plain");
  CHECK(file.word("features", {1}) == "massive");
  CHECK(file.word("part", {0}) == "stream");
  CHECK(file.word("part", {4}) == "weights");
  CHECK(file.number("place", {0}) == -1.0);
  CHECK(file.number("place", {5}) == 4.0);
  CHECK(file.number("depth", {4}) == 4.0);
  // What the cases above check; a new column is to be checked there and named here.
  std::set<std::string> checked{"format",
                                "features",
                                "site",
                                "part",
                                "place",
                                "depth",
                                "placement",
                                "input",
                                "maximum_predicted",
                                "verdict",
                                "verdict_reason",
                                "worst_cell",
                                "worst_z",
                                "worst_excess",
                                "worst_critical",
                                "power_worst",
                                "power_median",
                                "drift_verdict",
                                "drift_reason",
                                "drift_worst",
                                "drift_worst_value",
                                "drift_worst_stderr",
                                "drift_allowance",
                                "drift_power",
                                "certified",
                                "certificate_signal",
                                "certificate_sublayer",
                                "certificate_bound",
                                "margin_predicted",
                                "massive_branch",
                                "massive_stream",
                                "weights_sqnr_predicted",
                                "overflow_seeds",
                                "overflow_signal",
                                "overflow_sublayer",
                                "overflow_seed",
                                "grad_overflow_seeds",
                                "grad_overflow_signal",
                                "grad_overflow_sublayer",
                                "grad_overflow_seed"};
  for (const std::string with_error :
       {"second_moment_predicted", "massive_branch_cost", "massive_stream_cost", "rounding_sqnr",
        "stream_sqnr_predicted", "sqnr", "error", "angle", "second_moment", "variance", "maximum", "underflow",
        "overflow", "second_moment_drift", "variance_drift"}) {
    checked.insert(with_error);
    checked.insert(with_error + "_stderr");
  }
  CHECK(file.names() == checked);
}

TEST_CASE("columns of formats: whole numbers and flags are no reals") {
  Filled planted;
  const dataset::Dataset data = formats::dataset_of(planted.config, planted.result);
  const auto type_of = [&](const std::string& name) {
    INFO(name);
    const dataset::Column* column = data.find(name);
    REQUIRE(column != nullptr);
    return column->type();
  };
  CHECK(type_of("certified") == dataset::Type::boolean);
  for (const char* name : {"place", "depth", "certificate_sublayer", "overflow_seeds", "overflow_sublayer",
                           "overflow_seed", "grad_overflow_seeds", "grad_overflow_sublayer", "grad_overflow_seed"}) {
    CHECK(type_of(name) == dataset::Type::integer);
  }
}

TEST_CASE("JSON of formats: the columns at their stacks, formats, inputs and sites") {
  Filled planted;
  const dataset::Dataset data = formats::dataset_of(planted.config, planted.result);
  const File file(data);
  const nlohmann::ordered_json json = dataset::json_image(formats::schema(), data);
  REQUIRE(json["cells"].size() == 2);
  const auto& pre = json["cells"][0];
  CHECK(pre["placement"] == "pre");
  CHECK(json["cells"][1]["placement"] == "peri");
  CHECK(pre["input"] == "gaussian");
  CHECK(pre["second_moment_predicted"][1] == file.number("second_moment_predicted", {0, 1}));
  const auto& fp64 = pre["formats"]["fp64"];
  CHECK(fp64["law"]["verdict"] == "inconclusive");
  CHECK(fp64["law"]["worst"]["z"] == file.number("worst_z", {0, 0}));
  CHECK(fp64["law"]["power"]["median"] == file.number("power_median", {0, 0}));
  for (const char* other : {"drift", "certificate", "rounding", "massive_cost", "margin_predicted"}) {
    CHECK_FALSE(fp64.contains(other));
  }
  const auto& half = pre["formats"]["fp16"];
  CHECK(half["drift"]["worst"]["value"] == file.number("drift_worst_value", {0, 1}));
  CHECK(half["drift"]["power"] == file.number("drift_power", {0, 1}));
  CHECK(half["certificate"]["certified"] == false);
  CHECK(half["certificate"]["signal"] == "sum");
  CHECK(half["certificate"]["sublayer"] == 1);
  CHECK(json["cells"][1]["formats"]["fp16"]["certificate"].dump() == R"({"certified":true})");
  CHECK(half["margin_predicted"] == file.number("margin_predicted", {0, 1}));
  CHECK(half["massive_cost"]["branch"]["loss"] == file.number("massive_branch_cost", {0, 1}));
  CHECK(half["massive_cost"]["stream"]["verdict"] == file.word("massive_stream", {0, 1}));
  CHECK(half["rounding"]["weights"]["sqnr"][2] == file.number("rounding_sqnr", {0, 1, 4, 2}));
  CHECK(half["rounding"]["weights"]["predicted"][1] == file.number("weights_sqnr_predicted", {0, 1, 1}));
  CHECK(half["massive"]["overflow"]["seeds"] == 3);
  CHECK(half["massive"]["overflow"]["signal"] == "hidden");
  CHECK(half["plain"]["overflow"].dump() == R"({"seeds":0})");
  CHECK(half["plain"]["grad_overflow"]["seed"] == 72);
  CHECK(half["plain"]["x_out"]["sqnr_predicted"][2] == file.number("stream_sqnr_predicted", {0, 1, 0, 2}));
  const std::size_t site = file.index("site", "grad x_out");
  for (const char* measure : {"sqnr", "angle", "overflow", "variance_drift_stderr"}) {
    INFO(measure);
    CHECK(half["massive"]["grad x_out"][measure][1] == file.number(measure, {0, 1, 1, site, 1}));
  }
  CHECK(json["coordinates"]["place"] == nlohmann::ordered_json{-1, 0, 1, 2, 3, 4});
  CHECK(json["coordinates"]["depth"] == nlohmann::ordered_json{0, 1, 2, 3, 4});
}

}  // namespace
}  // namespace periscope::testing
