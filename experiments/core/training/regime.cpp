#include "experiments/core/training/regime.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "sim/base/printable.h"
#include "sim/spec/weight.h"

namespace periscope::training {
namespace {

double size_of_matrices(const Trained& run) {
  const StackSpec& spec = run.spec;
  return stddev_of(spec, 0, Weight::v) * std::sqrt(static_cast<double>(spec.model.width));
}

std::string corpus_name(const Trained& run) {
  const std::filesystem::path path(run.train.get().corpus);
  return printable((path.has_filename() ? path : path.parent_path()).filename().string());
}

}  // namespace

std::vector<std::string> regime_of(const std::vector<Trained>& runs) {
  const auto range = [&](const char* format, const auto& value) {
    std::set<double> values;
    for (const Trained& run : runs) values.insert(static_cast<double>(value(run)));
    if (values.empty()) return std::string();
    const auto text = [&](double number) { return fmt::format(fmt::runtime(format), number); };
    const std::string first = text(*values.begin()), last = text(*values.rbegin());
    return first == last ? first : first + " to " + last;
  };
  std::set<std::string> corpora;
  for (const Trained& run : runs) corpora.insert(corpus_name(run));
  return {"σ√D " + range("{:.2g}", size_of_matrices),
          range("{:g}", [](const Trained& r) { return r.spec.get().model.layers; }) + " layers",
          "width " + range("{:g}", [](const Trained& r) { return r.spec.get().model.width; }),
          range("{:g}", [](const Trained& r) { return r.spec.get().input.tokens; }) + " tokens",
          fmt::format("corpus {}", fmt::join(corpora, ", ")),
          "rate " + range("{:.3g}", [](const Trained& r) { return r.train.get().lr; }),
          range("{:g}", [](const Trained& r) { return r.train.get().steps; }) + " steps of " +
              range("{:g}", [](const Trained& r) { return r.train.get().batch; }) + " sequences"};
}

std::string in_one_line(const std::vector<std::string>& regime) { return fmt::format("{}", fmt::join(regime, ", ")); }

}  // namespace periscope::training
