#include "experiments/studies/formats/dataset_tables.h"

namespace periscope::formats {
namespace {

using dataset::Table;

Table<judge::Agreement> law_table() {
  Table<judge::Agreement> worst;
  worst
      .column({"worst_cell", on_format, "", "worst cell or contrast of the law"},
              [](const judge::Agreement& a) { return a.worst_cell().name(); })
      .column({"worst_z", on_format, "1", "worst cell: measured - predicted in combined standard errors"},
              [](const judge::Agreement& a) { return a.worst_cell().z(); })
      .column({"worst_excess", on_format, "1", "worst cell: standard errors beyond rounding"},
              [](const judge::Agreement& a) { return a.worst_cell().excess(); })
      .column({"worst_critical", on_format, "1", "worst cell: where it would be rejected"},
              [](const judge::Agreement& a) { return a.critical; });
  Table<judge::Power> power;
  power
      .column({"power_worst", on_format, "1",
               "relative error that would have been rejected with 95 % probability (T22): worst cell"},
              [](const judge::Power& p) { return p.worst; })
      .column({"power_median", on_format, "1", "the same: median over cells"},
              [](const judge::Power& p) { return p.median; });
  Table<judge::Agreement> table;
  table
      .column({"verdict", on_format, "",
               "does the stream's second moment and variance over depth agree with theory (T12, T25)?"},
              [](const judge::Agreement& a) { return judge::name_of(a.verdict); })
      .column({"verdict_reason", on_format, "", "why the verdict is inconclusive or was not given"},
              [](const judge::Agreement& a) { return a.reason; })
      .part(worst, [](const judge::Agreement& a) { return a.worst < 0 ? nullptr : &a; })
      .part(power, [](const judge::Agreement& a) { return a.cells.empty() ? nullptr : &a.power; });
  return table;
}

Table<FormatResult> drift_table() {
  Table<judge::Agreement> worst;
  worst
      .column({"drift_worst", on_format, "", "worst cell of the drift"},
              [](const judge::Agreement& a) { return a.worst_cell().name(); })
      .column({"drift_worst_value", on_format, "1", "its relative drift"},
              [](const judge::Agreement& a) { return a.worst_cell().measured; })
      .column({"drift_worst_stderr", on_format, "1", "its standard error"},
              [](const judge::Agreement& a) { return a.worst_cell().measured_error; })
      .column({"drift_power", on_format, "1",
               "relative drift that would have been rejected with 95 % probability (T22): worst cell"},
              [](const judge::Agreement& a) { return a.power.worst; });
  Table<FormatResult> table;
  table
      .column({"drift_verdict", on_format, "",
               "are second moment and variance over depth those in f64, but for one rounding of the stream? paired by "
               "seeds"},
              [](const FormatResult& f) { return judge::name_of(f.drift.verdict); })
      .column({"drift_reason", on_format, "", "why that verdict is inconclusive or was not given"},
              [](const FormatResult& f) { return f.drift.reason; })
      .column({"drift_allowance", on_format, "1", "what one rounding of the stream may do"},
              &FormatResult::stream_rounding)
      .part(worst, [](const FormatResult& f) { return f.drift.worst < 0 ? nullptr : &f.drift; });
  return table;
}

Table<FormatCertificate> certificate_table() {
  using C = FormatCertificate;
  Table<C> first;
  first.column({"certificate_signal", on_format, "", "signal that may overflow first"}, &C::signal)
      .column({"certificate_sublayer", on_format, "1", "its sublayer"}, &C::sublayer)
      .column({"certificate_bound", on_format, "1", "its bound"}, &C::bound);
  Table<C> table;
  table
      .column({"certified", on_format, "1", "1: no input can overflow this format with the first seed's weights (T24)"},
              &C::certified)
      .part(first, [](const C& c) { return c.certified ? nullptr : &c; });
  return table;
}

}  // namespace

Table<FormatResult> verdict_table() {
  Table<FormatResult> table;
  table.part(law_table(), [](const FormatResult& f) { return &f.law; })
      .part(drift_table(), [](const FormatResult& f) { return f.is_f64() ? nullptr : &f; })
      .part(certificate_table(), [](const FormatResult& f) { return f.certificate ? &*f.certificate : nullptr; });
  return table;
}

}  // namespace periscope::formats
