#include "experiments/studies/certify/dataset_tables.h"

namespace periscope::certify {
namespace {

using dataset::Table;

Table<FormatHeadroom> factor_table() {
  using F = FormatHeadroom;
  Table<F> table;
  table
      .column({"headroom_c_certified", "format", "1",
               "largest power of two c, from 2^-40 to 2^40, with which every class of the scaled stack is certified; "
               "missing: none, or a format that was not judged"},
              &F::stream)
      .column({"headroom_c_measured", "format", "1", "largest c with which what was measured fits, margin times over"},
              &F::measured)
      .column({"headroom_k_certified", "format", "1",
               "largest power of two k of branches before norms B that is certified together with c_certified"},
              &F::branch)
      .column_if_any({"headroom_reason", "format", "", "why no c is certified"},
                     [](const F& f) { return f.reason.empty() ? std::nullopt : std::optional(f.reason); });
  return table;
}

std::vector<std::pair<std::size_t, FormatHeadroom>> factors_of(const Headroom& h) {
  std::vector<std::pair<std::size_t, FormatHeadroom>> all;
  for (const FormatHeadroom& f : h.formats) all.emplace_back(position_of(f.format), f);
  return all;
}

/// The stack that was scaled and run beside the original.
Table<ScaledRun> scaled_table() {
  using R = ScaledRun;
  Table<R> table;
  table
      .column({"scaled_c", "", "1", "c of the stack that was scaled and run"},
              [](const R& r) { return r.scale.stream; })
      .column({"scaled_k", "", "1", "k of it"}, [](const R& r) { return r.scale.branch; })
      .column({"scaled_tokens", "", "1", "tokens of that run"}, &R::tokens)
      .column({"logit_difference", "", "1", "largest change of a logit over the largest logit"}, &R::difference)
      .column({"logit_difference_without_eps", "", "1", "the same at eps = 0"}, &R::without_eps)
      .column({"logit_difference_gains_alone", "", "1", "the same if only gains and the embedding are scaled"},
              &R::gains_alone);
  return table;
}

/// The columns of a stack that can be scaled.
Table<Headroom> possible_table() {
  using H = Headroom;
  Table<H> table;
  table
      .column({"headroom_gains_alone", "", "1", "1: the embedding's scale and gains and biases of norms do it alone"},
              [](const H& h) { return h.recipe.gains_alone; })
      .column({"headroom_multiplied", "multiplied", "", "what c multiplies"},
              [](const H& h) { return h.recipe.multiplied; })
      .column({"headroom_divided", "divided", "", "what c divides"}, [](const H& h) { return h.recipe.divided; })
      .column({"headroom_stream_bound", "", "1", "largest bound of what grows with c"}, &H::stream_bound)
      .column({"headroom_stream_measured", "", "1", "largest magnitude measured of it"}, &H::stream_measured)
      .column({"headroom_margin", "", "1", "how many times over what was measured must fit"},
              [](const H& /*h*/) { return H::margin; })
      .rows_at("format", factor_table(), factors_of)
      .part(scaled_table(), [](const H& h) { return h.run ? &*h.run : nullptr; });
  return table;
}

}  // namespace

Table<Judged> headroom_table() {
  Table<Judged> table;
  table
      .column({"headroom_possible", "", "1", "1: the stream can be scaled with the function kept"},
              [](const Judged& j) { return j.result.headroom.possible; })
      .part(possible_table(), [](const Judged& j) { return j.result.headroom.possible ? &j.result.headroom : nullptr; })
      .rows_at(
          "format", verdicts_table("scaled_run_"), [](const Judged& j) -> const auto& { return j.scaled_runs; });
  return table;
}

}  // namespace periscope::certify
