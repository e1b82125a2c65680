#include "experiments/studies/formats/formats.h"
#include "tests/formats/stack.h"
#include "tests/support/doctest.h"

/// Whole runs of `formats`: conditions under which a format is certified.
namespace periscope::testing {
namespace {

using formats::FormatsConfig;
using Words = std::vector<std::string>;

FormatsConfig tiny_config(const Words& format, const Words& covers, const std::string& rest) {
  FormatsConfig config = small_config("pre", format);
  config.base.model.layers = 1;
  config.base.model.width = 16;
  config.base.model.head_dim = 8;
  config.base.model.mlp_width = 16;
  config.base.input.tokens = 4;
  config.run.backward = false;
  config.run.seeds = 1;
  config.theory.replicates = 2;
  config.covers = covers;
  config.rest = rest;
  return config;
}

formats::FormatsStack stack_of(const FormatsConfig& config) {
  stacks::Progress progress;
  return formats::run(config, progress).at(0);
}

TEST_CASE("formats: a certificate needs unscaled parts in the format and no part in a format that overflows earlier") {
  struct Row {
    const char* format;
    Words covers;
    const char* rest;
    bool stochastic, certified;
  };
  for (const Row& row :
       {Row{"fp16", {}, "bf16", false, true},
        Row{"bf16", {}, "fp16", false, true},  // bf16 covers all parts, so no part is in fp16
        Row{"fp16", {"modules"}, "bf16", false, true},
        Row{"bf16", {"modules"}, "fp16", false, false},  // fp16 has a narrower range than bf16
        Row{"int8", {}, "bf16", false, false},
        Row{"fp8_e4m3", {}, "bf16", false, false},  // by default only inputs and weights, which have scales
        Row{"fp8_e4m3", {"stream", "inputs"}, "bf16", false, true}, Row{"fp16", {}, "bf16", true, false}}) {
    FormatsConfig config = tiny_config({row.format}, row.covers, row.rest);
    config.stochastic = row.stochastic;
    INFO("row.format := ", row.format, ", row.rest := ", row.rest);
    CHECK(stack_of(config).formats[1].certificate.has_value() == row.certified);
  }
}

TEST_CASE("formats: a certificate covers inputs with massive features, and the weights of the first seed") {
  FormatsConfig config = tiny_config({"fp16"}, {}, "bf16");
  CHECK(stack_of(config).formats[1].certificate->certified);
  config.massive = 1e5;  // beyond the range of FP16
  const formats::FormatsStack massive = stack_of(config);
  CHECK_FALSE(massive.formats[1].certificate->certified);
  CHECK(massive.formats[1].certificate->first.largest >= massive.largest_input);

  // Entries are up to about 300. Their squares, up to 9e4, fit f32 but exceed FP16's largest number, 65504.
  config = tiny_config({"fp16"}, {}, "bf16");
  config.base.input.second_moment = 1e4;
  CHECK(stack_of(config).formats[1].certificate->certified);
  config.accumulates_in_format = true;
  CHECK(stack_of(config).formats[1].certificate->first.signal == Signal::squares);

  config = tiny_config({"fp16", "bf16"}, {}, "bf16");
  config.base.model.gamma = 1e5;
  config.run.seed = 40;
  config.run.seeds = 2;
  const formats::FormatsStack stack = stack_of(config);
  const formats::FormatResult& half = stack.formats[1];
  CHECK(half.variants[0].forward.seeds == 2);
  CHECK(half.variants[0].forward.of_first_seed);
  CHECK_FALSE(half.certificate->certified);
  CHECK(half.certificate->first.signal == Signal::weights);
  CHECK(half.certificate->first.largest > 65504.0);
  CHECK(stack.formats[2].certificate->certified);
  CHECK(stack.formats[2].variants[0].forward.seeds == 0);
}

}  // namespace
}  // namespace periscope::testing
