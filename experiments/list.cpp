#include "experiments/list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "sim/backends.h"
#include "sim/core/op_table.h"
#include "sim/spec/model_spec.h"

namespace periscope {
namespace {

struct Key {
  std::string_view name, standard, meaning;
};

// clang-format off
constexpr std::array keys{
    Key{"model.preset", "-", "400M, 1.5B or 3.2B: fills the shape; explicit keys win"},
    Key{"model.layers", "24", "layers, each attention and MLP"},
    Key{"model.width", "1024", "D"},
    Key{"model.heads", "8", "query heads"},
    Key{"model.kv_heads", "heads", "key/value heads; divides heads"},
    Key{"model.head_dim", "width/heads", "e"},
    Key{"model.mlp", "\"swiglu\"", "relu, gelu, silu, swiglu, geglu, gelu_tanh, geglu_tanh"},
    Key{"model.mlp_width", "4*width", "hidden width h"},
    Key{"model.norm", "\"rms\"", "rms, layer"},
    Key{"model.norm_eps", "1e-6", "epsilon of every norm"},
    Key{"model.gamma", "1.0", "gain of norms A, B, C, embedding and final; QK-norm gains are 1"},
    Key{"model.placement", "\"peri\"", "a name, a table {A, B, C, alpha, beta}, or a list of these"},
    Key{"model.embedding_norm", "false", "norm on the stack's input"},
    Key{"model.final_norm", "by placement", "norm on the stack's output"},
    Key{"model.qk_norm", "\"none\"", "none, head, full: RMSNorm of queries and keys before RoPE"},
    Key{"model.rope", "true", "rotary embedding, half-split, base 10000"},
    Key{"model.causal", "true", "causal mask"},
    Key{"model.vocab", "512", "V"},
    Key{"model.unembedding", "true", "unembedding matrix after the final norm"},
    Key{"init.scheme", "\"normal\"", "normal std; lecun 1/fan_in, he 2/fan_in, xavier 2/(in+out), scaled factor/fan_in"},
    Key{"init.std", "0.02", "standard deviation of scheme normal"},
    Key{"init.factor", "1.0", "factor of scheme scaled"},
    Key{"init.qk_factor", "1.0", "on the standard deviation of W_q and W_k; 0: uniform attention"},
    Key{"init.down_factor", "1.0", "on the standard deviation of W_down"},
    Key{"input.kind", "\"gaussian\"", "gaussian, tokens (random ids), text (bytes of a file), or a list of these"},
    Key{"input.tokens", "128", "T"},
    Key{"input.second_moment", "1.0", "of the input's entries; tokens, text: of the embedding table's"},
    Key{"input.correlation", "0.0", "of two tokens' entries, 0 to 1; gaussian only"},
    Key{"input.path", "\"\"", "text only: the file"},
    Key{"run.seed", "0", "first seed"},
    Key{"run.seeds", "8", "number of seeds; a verdict needs 4"},
    Key{"run.threads", "0", "0: all cores"},
    Key{"run.device", "\"cpu\"", "cpu, reference, cuda"},
    Key{"run.dtype", "\"f32\"", "f64, f32, bf16, f16"},
    Key{"run.backward", "false", "gradients too"},
    Key{"run.out", "\"\"", "folder for result files"},
    Key{"theory.tolerance", "0.01", "wanted standard error of the prediction (sampled attention patterns)"},
    Key{"theory.gradient_tolerance", "0.03", "wanted standard error of the logarithm of every predicted squared gradient"},
    Key{"theory.fault", "\"none\"", "a planted mistake: beta0, attention-output, no-score-path, query-gradient, depth-constant"},
    Key{"theory.finite_width", "by command", "forward statistics exactly at the stack's widths (T25; propagate), or in their limit (theory)"},
    Key{"theory.replicates", "0", "replicates of T25's chain; 0: 4 to 16 a seed, by their cost"},
    Key{"agreement.familywise_error", "0.01", "chance of a rejected cell in a run where theory is right"},
    Key{"agreement.finite_width", "0.5", "c of the finite-width term c*w for moments, relative (T19)"},
    Key{"agreement.finite_width_cosine", "1.0", "c of c*w for cosines, absolute, and for the size of attention's output, relative"},
    Key{"agreement.finite_width_gradient", "1.0", "c of the finite-width term for logarithms of gradients (T19); measured, see theory/README.md"},
    Key{"agreement.power_limit.second_moment", "0.2", "largest relative error that a verdict may leave unnoticed, else it is inconclusive (T22)"},
    Key{"agreement.power_limit.variance", "0.2", "the same of the variance"},
    Key{"agreement.power_limit.token_cosine", "0.2", "the same of the token cosine, absolute"},
    Key{"agreement.power_limit.log_grad_sq", "0.5", "the same of the logarithm of a squared gradient"},
    Key{"agreement.power_limit.score_share", "0.1", "the same of the score path's share, absolute"},
    Key{"converge.widths", "[32, 64, 128, 256]", "widths, head_dim fixed, heads and mlp_width in proportion"},
    Key{"converge.seeds", "64", "seeds per width"},
    Key{"ladder.widths", "[32, 64, 128, 256]", "at least four widths, as in converge.widths"},
    Key{"ladder.seeds", "64", "seeds per width"},
    Key{"gradients.layers", "[4, 8, 16, 32]", "depths of `gradients depth`"},
    Key{"gradients.qk_factors", "[0.0, 1.0]", "values of init.qk_factor in `gradients attenuation`"},
    Key{"gradients.down_factors", "[0.1, 1.0, 10.0]", "values of init.down_factor in `gradients crossover`"},
};
// clang-format on

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
  for (const Key& k : keys) text += fmt::format("  {:<38} {:<19} {}\n", k.name, k.standard, k.meaning);
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
  for (const Key& k : keys) json["keys"].push_back({{"name", k.name}, {"default", k.standard}, {"meaning", k.meaning}});
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
