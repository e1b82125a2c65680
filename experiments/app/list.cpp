#include "experiments/app/list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "experiments/studies/sections.h"
#include "sim/backends.h"
#include "sim/core/op_table.h"
#include "sim/spec/model_spec.h"

namespace periscope {
namespace {

struct Experiment {
  std::string_view command, question;
};

constexpr std::array experiments{
    Experiment{"propagate --config experiments/configs/headline.toml",
               "forward signals of eight placements, predicted and measured"},
    Experiment{"converge --config experiments/configs/converge.toml",
               "is the rest of the difference finite width and noise?"},
    Experiment{"propagate --backward --config experiments/configs/gradients.toml",
               "gradients of the stream and of every matrix, and the score path's share"},
    Experiment{"gradients score-path --config experiments/configs/score_path.toml",
               "what queries and keys carry of the gradient; a theory without them"},
    Experiment{"gradients depth --config experiments/configs/gradient_depth.toml",
               "the last MLP matrix's gradient against the number of layers"},
    Experiment{"gradients attenuation --config experiments/configs/gradient_attenuation.toml",
               "rate per layer at which gradients shrink, uniform and real attention"},
    Experiment{"gradients identity-path --config experiments/configs/identity_path.toml",
               "the gradient as a sum over paths, term by term"},
    Experiment{"gradients crossover --config experiments/configs/crossover.toml",
               "is Peri-LN's last gradient smaller than Pre-LN's?"},
    Experiment{"ladder --config experiments/configs/ladder.toml",
               "is the limit of infinite width what theory says? no allowance, gradients included"},
    Experiment{
        "formats --config experiments/configs/formats.toml",
        "number formats: does the variance law survive, what drifts, overflows, and whom do massive features hurt?"},
    Experiment{"power",
               "wrong theories: which configuration rejects which? --master-seeds 64: how often the right one?"},
    Experiment{"theory --set model.preset=3.2B", "the prediction alone, at full size"},
    Experiment{"info DIR", "the placement and the names of the norms of a checkpoint"},
    Experiment{"verify --cases 20000", "bounds on gradients and growth (T14-T16): attacked, and false claims refuted"},
    Experiment{"probe DIR --text FILE", "a checkpoint on tokens: measured, beside theory at initialisation"},
    Experiment{"certify DIR --headroom fp16",
               "bounds on every signal for every input (T17), and room in number formats"},
    Experiment{
        "soundness --checkpoints 10000",
        "certificates (T24) attacked: adversarial checkpoints, run in the arithmetic that they are certified for"},
    Experiment{"generate DIR --tokens 1", "continue tokens with a checkpoint, always by the likeliest"},
    Experiment{"toy", "the reviews' toy vector, step by step"},
};

}  // namespace

std::string list_text() {
  std::string text = "Placements: x+ = C( alpha x + beta B( f( s A(x) ) ) )\n";
  text += fmt::format("  {:<13} {:<19} {:<50} {:<11} {}\n", "name", "norms", "scales", "final norm", "used by");
  for (const Placement& p : placement_table()) {
    text += fmt::format("  {:<13} {:<19} {:<50} {:<11} {}\n", p.name, p.norms, p.scales, p.final_norm ? "yes" : "no",
                        p.used_by);
  }
  text +=
      "  residual-dual was called residual, which is still accepted\n"
      "  or a table: placement = {A = true, B = false, C = false, alpha = 1.0, beta = 1.0}\n\nPresets (Peri-LN "
      "paper, Table 4; hidden width 4*D and 8 key/value heads are inferred from the names' parameter counts)\n";
  for (const Preset& p : presets) {
    text += fmt::format("  {:<5} layers {}, width {}, heads {}, kv_heads {}, head_dim {}, mlp_width {}\n", p.name,
                        p.layers, p.width, p.heads, p.kv_heads, p.head_dim, p.mlp_width);
  }
  text += "\nConfiguration keys\n";
  for (const AnySection& section : sections()) {
    for (const KeyText& k : section.keys) text += fmt::format("  {:<38} {:<19} {}\n", k.name, k.standard, k.meaning);
  }
  text += fmt::format("\nDevices: {}\n", fmt::join(device_names(), ", "));
  text += fmt::format("\nOps of a device\n  {:<23} {:<10} {:<7} {:<72} {}\n", "name", "dtype", "sums in", "formula",
                      "shapes");
  for (const OpRow& op : op_table()) {
    text += fmt::format("  {:<23} {:<10} {:<7} {:<72} {}\n", op.name, name_of(op.output), name_of(op.accumulation),
                        op.formula, op.shapes);
  }
  text += "\nExperiments\n";
  for (const Experiment& e : experiments) text += fmt::format("  periscope {:<80} {}\n", e.command, e.question);
  return text;
}

nlohmann::ordered_json list_json() {
  nlohmann::ordered_json json;
  for (const Placement& p : placement_table()) {
    json["placements"].push_back({{"name", p.name},
                                  {"norms", p.norms},
                                  {"scales", p.scales},
                                  {"final_norm", p.final_norm},
                                  {"used_by", p.used_by}});
  }
  for (const Preset& p : presets) {
    json["presets"].push_back({{"name", p.name},
                               {"layers", p.layers},
                               {"width", p.width},
                               {"heads", p.heads},
                               {"kv_heads", p.kv_heads},
                               {"head_dim", p.head_dim},
                               {"mlp_width", p.mlp_width}});
  }
  for (const AnySection& section : sections()) {
    for (const KeyText& k : section.keys) {
      json["keys"].push_back({{"name", k.name}, {"default", k.standard}, {"meaning", k.meaning}});
      if (!k.unit.empty()) json["keys"].back()["unit"] = k.unit;
    }
  }
  for (const std::string_view name : device_names()) json["devices"].push_back(name);
  for (const OpRow& op : op_table()) {
    json["ops"].push_back({{"name", op.name},
                           {"dtype", name_of(op.output)},
                           {"accumulation", name_of(op.accumulation)},
                           {"formula", op.formula},
                           {"shapes", op.shapes}});
  }
  for (const Experiment& e : experiments) {
    json["experiments"].push_back({{"command", e.command}, {"question", e.question}});
  }
  return json;
}

}  // namespace periscope
