#include "experiments/engine/judge/stack_verdicts.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/run/token_ids.h"
#include "sim/backends.h"
#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"
#include "theory/predict/predict.h"

/// Compares theory (T3–T11) with simulation, forward and backward, for options that only checkpoints use.
namespace periscope::testing {
namespace {

/// Returns a stack with alternating local and global attention, as in Gemma 2, and score options with strong effects.
StackSpec with_rules() {
  StackSpec spec = placed(tiny_stack(), "pre");
  ModelSpec& m = spec.model;
  m.layers = 3;
  m.width = 64;
  m.heads = 8;
  m.kv_heads = 4;
  m.head_dim = 8;
  m.mlp = MlpKind::geglu_tanh;
  m.mlp_width = 96;
  m.vocab = 40;
  m.gamma = 1.0;
  spec.init.scheme = InitScheme::lecun;
  spec.init.qk_factor = 2.0;
  spec.input.kind = InputKind::tokens;
  spec.input.tokens = 12;
  spec.input.second_moment = 0.5;
  m.embedding = {.scale = 1.5, .width = 48, .positions = 14, .position_offset = 2, .token_types = 2};
  m.head = {.scale = 0.7, .soft_cap = 1.5};
  const AttentionRule local{.scores = {.scale = 0.6, .soft_cap = 1.2, .window = 4},
                            .rope_frequencies = {1.0, 0.3, 0.1, 0.0},
                            .rope_scale = 1.3};
  const AttentionRule global{.scores = {.scale = 0.6, .soft_cap = 1.2}, .rope_frequencies = {}};
  m.attention = {local, global, local};
  validate(spec);
  return spec;
}

judge::StackVerdict agreement_of(const StackSpec& spec) {
  config::RunOptions run;
  run.seeds = 48;
  run.dtype = DType::f64;
  run.backward = true;
  const auto backend = make_backend("cpu");
  stacks::Progress progress;
  const SeedAverage average =
      stacks::measure_stack(*backend, spec, run, run.seeds, "", progress, [](const Reading&) {});
  const theory::Prediction prediction =
      theory::predict(spec, stacks::distinct_token_ids(spec, run.seed, run.seeds),
                      {.tolerance = 0.005, .labels = stacks::distinct_label_ids(spec, run.seed, run.seeds)});
  return judge::verdicts_of({{.spec = spec,
                              .measured = {average.profile(), average.seeds()},
                              .dtype = run.dtype,
                              .prediction = prediction}},
                            config::AgreementOptions{})
      .front();
}

TEST_CASE("theory agrees with simulation for the score rules, RoPE frequencies, embeddings and heads of checkpoints") {
  const StackSpec spec = with_rules();
  const judge::StackVerdict agreement = agreement_of(spec);
  const judge::Test& worst = agreement.worst_test();
  INFO(worst.name(), ": measured ", worst.measured, ", predicted ", worst.predicted, ", excess ", worst.excess(),
       ", critical value ", worst.critical);
  CHECK(agreement.verdict != judge::Verdict::disagrees);
}

}  // namespace
}  // namespace periscope::testing
