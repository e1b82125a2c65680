#include "experiments/studies/verify/dataset_statements.h"

#include "experiments/studies/verify/report.h"

namespace periscope::verify {
namespace {

using dataset::Table;

/// The histogram of the file: this many bins of the tally's make one.
constexpr std::size_t coarse = 20;

/// A statement and what it met.
struct StatementRow {
  const Statement& statement;
  const Tally& tally;
  const std::vector<Tally>& by_width;
};

/// A statement and what it met at one width.
struct WidthRow {
  const Statement& statement;
  const Tally& tally;
  int width;
};

std::string_view kind_name(StatementKind kind) {
  return kind == StatementKind::bound ? "bound" : kind == StatementKind::identity ? "identity" : "refutable";
}

std::optional<std::uint64_t> case_number(std::uint64_t id) {
  return id == Tally::none ? std::nullopt : std::optional(id);
}

std::optional<double> largest_of(const Tally& t) {
  return t.largest_case == Tally::none ? std::nullopt : std::optional(t.largest);
}

std::vector<std::uint64_t> coarse_histogram(const RatioHistogram& histogram) {
  std::vector<std::uint64_t> bins(histogram.counts().size() / coarse);
  for (std::size_t i = 0; i < bins.size() * coarse; ++i) bins[i / coarse] += histogram.counts()[i];
  return bins;
}

std::vector<StatementRow> rows_of_statements(const VerifyResult& r) {
  std::vector<StatementRow> all;
  for (std::size_t k = 0; k < statements().size(); ++k) all.push_back({statements()[k], r.tallies[k], r.by_width[k]});
  return all;
}

std::vector<WidthRow> rows_of_widths(const StatementRow& row) {
  std::vector<WidthRow> all;
  for (const Tally& t : row.by_width) all.push_back({row.statement, t, static_cast<int>(all.size()) + 1});
  return all;
}

Table<WidthRow> width_table() {
  using R = WidthRow;
  const std::string on = "statement width";
  Table<R> table;
  table.column({"width_cases", on, "1", "cases with a ratio"}, [](const R& r) { return r.tally.histogram.total(); })
      .column({"width_ratio_median", on, "1", "measured over bound: median at this width"},
              [](const R& r) { return r.tally.quantile(0.5); })
      .column({"width_ratio_q99", on, "1", "measured over bound: quantile 0.99 at this width"},
              [](const R& r) { return r.tally.quantile(0.99); })
      .column_if_any({"width_ratio_largest", on, "1", "measured over bound: largest at this width"},
                     [](const R& r) { return largest_of(r.tally); })
      .column({"width_ratio_limit", on, "1", "largest ratio that T14-T16 leave possible"},
              [](const R& r) { return r.statement.limit(r.width); });
  return table;
}

Table<StatementRow> statement_table() {
  using R = StatementRow;
  const std::string on = "statement";
  Table<R> table;
  table
      .column({"statement_kind", on, "", "bound, identity, or a claim to be refuted"},
              [](const R& r) { return kind_name(r.statement.kind); })
      .column({"statement_source", on, "", "who states it"}, [](const R& r) { return r.statement.source; })
      .column({"statement_text", on, "", "the statement in words"}, [](const R& r) { return r.statement.text; })
      .column({"cases", on, "1", "random cases to which the statement applies"},
              [](const R& r) { return r.tally.cases; })
      .column({"trivial", on, "1", "cases in which the bound is infinite, or zero and met"},
              [](const R& r) { return r.tally.trivial; })
      .column({"unresolved", on, "1", "cases whose rounding is too large for a ratio"},
              [](const R& r) { return r.tally.unresolved; })
      .column({"violations", on, "1", "cases that break the statement"}, [](const R& r) { return r.tally.violations; })
      .column({"first_violation", on, "1", "the first of them"},
              [](const R& r) { return case_number(r.tally.first_violation); })
      .column({"ratio_median", on, "1", "measured over bound: median"},
              [](const R& r) { return r.tally.quantile(0.5); })
      .column({"ratio_q99", on, "1", "measured over bound: quantile 0.99"},
              [](const R& r) { return r.tally.quantile(0.99); })
      .column_if_any({"ratio_largest", on, "1", "measured over bound: largest"},
                     [](const R& r) { return largest_of(r.tally); })
      .column({"largest_case", on, "1", "the case of the largest"},
              [](const R& r) { return case_number(r.tally.largest_case); })
      .column({"statement_verdict", on, "", "what the cases say of it"},
              [](const R& r) { return verdict_of(r.statement, r.tally); })
      .column({"ratio_histogram", "statement log_ratio", "1", "cases per bin"},
              [](const R& r) { return coarse_histogram(r.tally.histogram); })
      .rows("width", width_table(), rows_of_widths);
  return table;
}

}  // namespace

std::vector<double> histogram_bins(const RatioHistogram& histogram) {
  std::vector<double> bins;
  for (std::size_t i = 0; i + coarse <= histogram.counts().size(); i += coarse) {
    bins.push_back(0.5 * (histogram.centre(i) + histogram.centre(i + coarse - 1)));
  }
  return bins;
}

Table<VerifyResult> statement_columns() {
  Table<VerifyResult> table;
  table.rows("statement", statement_table(), rows_of_statements);
  return table;
}

}  // namespace periscope::verify
