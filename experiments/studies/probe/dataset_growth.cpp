#include <optional>

#include "experiments/studies/probe/dataset_tables.h"

namespace periscope::probe {
namespace {

using dataset::Table;

/// The parts of growth need theory at initialisation and at two of the sizes that nulls keep.
bool has_parts(const ProbeResult& r) {
  return !r.initial.profile.curves.empty() && !r.nulls[stacks::matrices_null].predicted.profile.curves.empty() &&
         !r.nulls[stacks::rank_one_null].predicted.profile.curves.empty();
}

/// A model's growth beside that of one null.
struct AgainstNull {
  const stacks::SizeNull& law;
  int draws;
  std::vector<LeftOver> left_over;  ///< by depth
  std::vector<double> drawn_mean;   ///< likewise; empty without draws
};

/// Without those that nothing is known of.
std::vector<std::pair<std::size_t, AgainstNull>> nulls_of(const ProbeResult& r) {
  std::vector<std::pair<std::size_t, AgainstNull>> all;
  for (std::size_t i = 0; i < stacks::size_nulls.size() && has_parts(r); ++i) {
    const stacks::NullDraws& drawn = r.nulls[i].drawn;
    if (drawn.draws == 0 && !stacks::size_nulls[i].kept) continue;
    AgainstNull against{
        .law = stacks::size_nulls[i], .draws = drawn.draws, .left_over = left_over(r, i), .drawn_mean = {}};
    for (std::size_t depth = 0; depth < against.left_over.size() && drawn.draws > 0; ++depth) {
      against.drawn_mean.push_back(drawn.mean(depth));
    }
    all.emplace_back(i, std::move(against));
  }
  return all;
}

template <class Part>
std::vector<double> each(const std::vector<Part>& parts, double Part::*number) {
  std::vector<double> all;
  for (const Part& part : parts) all.push_back(part.*number);
  return all;
}

Table<AgainstNull> null_table() {
  using N = AgainstNull;
  Table<N> table;
  table
      .column({"null_meaning", "null", "", "what random weights of the null have of the model's own"},
              [](const N& n) { return n.law.meaning; })
      .column({"null_draws", "null", "1", "random models that were drawn"}, &N::draws)
      .column({"null_left_over", "null depth", "nat",
               "log of the stream's measured second moment over the null's: theory's, of the last one the draws' "
               "geometric mean"},
              [](const N& n) { return each(n.left_over, &LeftOver::value); })
      .column_if_any(
          {"null_left_over_error", "null depth", "nat", "what models of the null have for it, root mean square"},
          [](const N& n) { return n.draws > 0 ? std::optional(each(n.left_over, &LeftOver::error)) : std::nullopt; })
      .column_if_any(
          {"null_drawn_mean", "null depth", "nat", "mean over the draws of the log of the stream's second moment"},
          [](const N& n) { return n.draws > 0 ? std::optional(n.drawn_mean) : std::nullopt; });
  return table;
}

std::optional<std::vector<double>> part_of(const ProbeResult& r, double GrowthSplit::*part) {
  return has_parts(r) ? std::optional(each(growth_split(r), part)) : std::nullopt;
}

/// T29.
Table<ProbeResult> split_table() {
  using R = ProbeResult;
  Table<R> table;
  table
      .column_if_any({"log_growth_from_scales", "depth", "nat",
                      "log of the stream's second moment at the matrices' own root mean squares and gains over that at "
                      "initialisation"},
                     [](const R& r) { return part_of(r, &GrowthSplit::from_scales); })
      .column_if_any(
          {"log_growth_from_sizes_inside", "depth", "nat",
           "log of the stream's second moment at profiles of rank one (scale of every row and column, of embedding "
           "tables of the rows in use) over that at the matrices' scales (T29)"},
          [](const R& r) { return part_of(r, &GrowthSplit::from_sizes_inside); })
      .column_if_any({"log_growth_from_alignment", "depth", "nat",
                      "log of the stream's measured second moment over that of random weights with these profiles"},
                     [](const R& r) { return part_of(r, &GrowthSplit::from_alignment); })
      .column_if_any({"log_growth_alignment_error", "depth", "nat",
                      "what random models of the model's own width with these profiles have for it, root mean square "
                      "over draws"},
                     [](const R& r) {
                       return r.nulls[stacks::rank_one_null].drawn.draws > 0 ? part_of(r, &GrowthSplit::alignment_error)
                                                                             : std::nullopt;
                     })
      .rows_at("null", null_table(), nulls_of);
  return table;
}

/// T15.
Table<Growth> identity_table() {
  using G = Growth;
  const std::string mean = ", mean over tokens (T15)";
  Table<G> table;
  table.column({"growth_stream", "sublayer", "1", "alpha^2 E[x^2] before the sublayer" + mean}, &G::stream)
      .column({"growth_branch", "sublayer", "1", "beta^2 E[b^2] of the branch" + mean}, &G::branch)
      .column({"growth_cross", "sublayer", "1", "2 alpha beta E[x b], the term that Eq. 4 leaves out" + mean},
              &G::cross)
      .column({"growth_sum", "sublayer", "1", "E[x^2] after the addition, before norm C" + mean}, &G::sum)
      .column({"growth_stream_share", "sublayer", "1", "growth_stream over growth_sum"},
              [](const G& g) { return g.stream / g.sum; })
      .column({"growth_branch_share", "sublayer", "1", "growth_branch over growth_sum"},
              [](const G& g) { return g.branch / g.sum; })
      .column({"growth_cross_share", "sublayer", "1", "growth_cross over growth_sum"},
              [](const G& g) { return g.cross / g.sum; })
      .column({"growth_cross_over_branch", "sublayer", "1", "Eq. 4's failure: growth_cross over growth_branch"},
              [](const G& g) { return g.cross / g.branch; })
      .column({"growth_residual", "sublayer", "1", "worst token's violation of T15 in units of what rounding explains"},
              &G::residual);
  return table;
}

}  // namespace

Table<ProbeResult> growth_table() {
  using R = ProbeResult;
  Table<R> table = split_table();
  table.rows("sublayer", identity_table(), [](const R& r) { return r.measured.growth; })
      .column({"growth_violated", "", "1", "1: T15 is violated beyond rounding in some sublayer"},
              [](const R& r) { return violates_growth_identity(r.measured); })
      .column({"branch_from_gains", "sublayer", "1", "beta^2 E[b^2] from norm B's gains (and biases) alone"},
              [](const R& r) { return r.measured.branch_from_gains; });
  return table;
}

}  // namespace periscope::probe
