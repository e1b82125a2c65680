#include "experiments/engine/judge/verdict_columns.h"
#include "experiments/studies/formats/dataset_tables.h"

namespace periscope::formats {
namespace {

using dataset::Table;

Table<judge::StackVerdict> law_table() {
  using V = judge::StackVerdict;
  Table<V> worst = judge::worst_columns(on_format);
  worst.column(
      {"worst_z", on_format, "1", "test nearest to rejection: measured - predicted in combined standard errors"},
      [](const V& v) { return v.worst_test().z(); });
  Table<V> table;
  table
      .column({"verdict", on_format, "",
               "does the stream's second moment and variance over depth agree with theory (T12, T25)?"},
              [](const V& v) { return judge::name_of(v.verdict); })
      .column({"verdict_reason", on_format, "", "why the verdict is inconclusive or was not given"}, &V::reason)
      .part(worst, [](const V& v) { return v.worst < 0 ? nullptr : &v; });
  return table;
}

Table<FormatResult> drift_table() {
  Table<judge::StackVerdict> worst;
  worst
      .column({"drift_worst", on_format, "", "test of the drift nearest to rejection"},
              [](const judge::StackVerdict& v) { return v.worst_test().name(); })
      .column({"drift_worst_value", on_format, "1", "its relative drift"},
              [](const judge::StackVerdict& v) { return v.worst_test().measured.value; })
      .column({"drift_worst_stderr", on_format, "1", "its standard error"},
              [](const judge::StackVerdict& v) { return v.worst_test().measured.error; })
      .column({"drift_power", on_format, "1",
               "relative drift that would have been rejected with 95 % probability (T22): worst test"},
              [](const judge::StackVerdict& v) { return v.power.worst; });
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
