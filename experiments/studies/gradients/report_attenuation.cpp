#include <fmt/format.h>

#include <algorithm>

#include "experiments/engine/result/text_table.h"
#include "experiments/studies/gradients/attenuation.h"
#include "experiments/studies/gradients/report_columns.h"

namespace periscope::gradients {
namespace {

std::string table_of(const std::vector<Attenuation>& results) {
  dataset::TextTable table({"placement", "q·k", "gradient of", "rate per layer", "predicted", "theory", "claim"});
  for (const Attenuation& a : results) {
    const auto row = [&](const char* what, const judge::Test& rate, const judge::Claim& claim) {
      table.add({config::placement_label(a.spec), fmt::format("{:g}", a.spec.init.qk_factor), what,
                 judge::plus_minus(rate.measured), judge::shown(rate.predicted.value, "{:.4f}"),
                 a.refusal.empty() ? judge::verdict_words(rate) : a.refusal,
                 a.is_claimed() ? fmt::format("{}: {:.4f}: {}", claim.id, claim.claimed, judge::name_of(claim.verdict))
                                : "-"});
    };
    row("the stream", a.stream_rate, a.stream_claim);
    row("W_down", a.down_rate, a.down_claim);
  }
  return table.text() +
         "rate: slope of log ‖∂loss/∂·‖ per layer towards the input, ± standard error over seeds; below 0: "
         "attenuation.\n"
         "q·k: init.qk_factor; 0 is uniform attention.\n";
}

const Table<Attenuation>& attenuation_table() {
  static const Table<Attenuation> all = [] {
    using A = Attenuation;
    Table<A> table;
    add_placement(table, "case");
    table.column({"qk_factor", "case", "1", "init.qk_factor; 0: uniform attention"},
                 [](const A& a) { return a.spec.init.qk_factor; });
    add_refusal(table, "case");
    add_curve(
        table, {"log_stream", "case layers_passed", "nat", "log norm of the stream's gradient"},
        [](const A& a) { return a.stream.curve(); }, [](const A& a) -> const Curve& { return a.stream_predicted; });
    add_curve(
        table, {"log_down", "case layer", "nat", "log norm of W_down's gradient"},
        [](const A& a) { return a.down.curve(); }, [](const A& a) -> const Curve& { return a.down_predicted; });
    add_test(table, {"stream_rate", "case", "nat", "slope per layer towards the input, stream"},
             [](const A& a) -> const judge::Test& { return a.stream_rate; });
    add_test(table, {"down_rate", "case", "nat", "slope per layer towards the input, W_down"},
             [](const A& a) -> const judge::Test& { return a.down_rate; });
    table.column({"claim", "case", "", "claim about this placement"}, [](const A& a) { return a.stream_claim.id; });
    table.column({"claimed_rate", "case", "nat", "rate that it claims"},
                 [](const A& a) { return a.is_claimed() ? std::optional(a.stream_claim.claimed) : std::nullopt; });
    table.column({"stream_claim_verdict", "case", "", "what the data say of the claim, stream"}, [](const A& a) {
      return a.is_claimed() ? std::optional(judge::name_of(a.stream_claim.verdict)) : std::nullopt;
    });
    table.column({"down_claim_verdict", "case", "", "what the data say of the claim, W_down"}, [](const A& a) {
      return a.is_claimed() ? std::optional(judge::name_of(a.down_claim.verdict)) : std::nullopt;
    });
    return table;
  }();
  return all;
}

}  // namespace

const dataset::Schema& attenuation_schema() {
  using dataset::Type;
  static const dataset::Schema schema("gradient_attenuation", 3,
                                      {{"case"},
                                       {"layers_passed", Type::integer, "1", "whole layers below"},
                                       {"layer", Type::integer, "1", "layer, from 0"}},
                                      attenuation_table().specs());
  return schema;
}

study::Outcome attenuation_outcome(const config::Config& config, const std::vector<Attenuation>& results) {
  dataset::Builder builder(attenuation_schema());
  const auto layers = static_cast<std::size_t>(config.base.model.layers);
  builder.count("layers_passed", layers + 1);
  builder.count("layer", layers);
  put_rows(builder, attenuation_table(), "case", results);
  const bool rejected = std::ranges::any_of(
      results, [](const Attenuation& a) { return judge::disagrees(a.stream_rate) || judge::disagrees(a.down_rate); });
  return {.data = builder.finish(), .table = table_of(results), .code = study::code_of(!rejected)};
}

}  // namespace periscope::gradients
