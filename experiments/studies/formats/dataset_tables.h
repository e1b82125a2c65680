#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiments/engine/result/table.h"
#include "experiments/studies/formats/formats.h"

/// The parts of the result's columns.
namespace periscope::formats {

inline const std::string on_format = "stack format";
inline const std::string on_features = on_format + " features";

/// A stack; `sites` are those of all stacks, `tests` the comparisons with massive features of all.
struct Stack {
  const FormatsStack& stack;
  const FormatsConfig& config;
  const std::vector<Site>& sites;
  std::size_t tests;
};

/// A stack in one format.
struct InFormat {
  const Stack& in;
  const FormatResult& format;
};

/// A stack in a format with one kind of input.
struct InVariant {
  const Stack& in;
  const Variant& variant;
};

/// Verdicts, which include certificates.
dataset::Table<FormatResult> verdict_table();
/// Measures at every site, the predicted noise of the stream, overflows.
dataset::Table<InVariant> variant_table();

/// Means over seeds and their standard errors, two columns; nothing is put for an empty list. `moments(s)` is a list of
/// RunningMoments along the dimensions that the row leaves open.
template <class S, class F>
void add_averages(dataset::Table<S>& table, dataset::ColumnText mean, dataset::ColumnText error, F moments) {
  const auto along = [moments](auto number) {
    return [moments, number](const S& s) -> std::optional<std::vector<double>> {
      const std::span<const RunningMoments> all = moments(s);
      if (all.empty()) return std::nullopt;
      std::vector<double> numbers;
      for (const RunningMoments& m : all) numbers.push_back((m.*number)());
      return numbers;
    };
  };
  table.column_if_any(std::move(mean), along(&RunningMoments::mean))
      .column_if_any(std::move(error), along(&RunningMoments::standard_error));
}

}  // namespace periscope::formats
