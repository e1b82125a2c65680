#include "experiments/studies/formats/formats.h"
#include "tests/formats/stack.h"
#include "tests/support/doctest.h"

/// A whole run of `formats`: what is allowed for one rounding of the stream, which formats are certified, whose seed
/// overflowed.
namespace periscope::testing {
namespace {

using formats::FormatsConfig;

FormatsConfig tiny_config(const std::vector<std::string>& format, const std::vector<std::string>& covers,
                          const std::string& rest) {
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

TEST_CASE("formats: what one rounding of the stream may do to its mean square, by the stream's format") {
  const auto allowed = [](bool stochastic, const std::vector<std::string>& covers) {
    FormatsConfig config = tiny_config({"bf16", "int8", "fp8_e4m3"}, covers, "fp16");
    config.certificates = false;
    config.stochastic = stochastic;
    std::vector<double> allowances;
    for (const auto& format : stack_of(config).formats) allowances.push_back(format.stream_rounding);
    return allowances;
  };
  // Entries move by u of themselves, of whole numbers by 2/Q of the rms: (1 + u)² − 1; stochastically by twice that.
  const auto by_hand = [](double u) { return (1.0 + u) * (1.0 + u) - 1.0; };
  const std::vector<double> nearest = allowed(false, {"stream"});
  REQUIRE(nearest.size() == 4);
  CHECK(nearest[0] == 0.0);
  CHECK(nearest[1] / by_hand(0x1p-8) == doctest::Approx(1.0).epsilon(1e-12));
  CHECK(nearest[2] / by_hand(2.0 / 127.0) == doctest::Approx(1.0).epsilon(1e-12));
  CHECK(nearest[3] / by_hand(0x1p-4) == doctest::Approx(1.0).epsilon(1e-12));
  const std::vector<double> stochastic = allowed(true, {"stream"});
  CHECK(stochastic[1] / by_hand(0x1p-7) == doctest::Approx(1.0).epsilon(1e-12));
  CHECK(stochastic[2] / by_hand(4.0 / 127.0) == doctest::Approx(1.0).epsilon(1e-12));
  // Narrow formats leave the stream to the rest, unless they are told to hold it.
  const std::vector<double> standard = allowed(false, {});
  CHECK(standard[1] / by_hand(0x1p-8) == doctest::Approx(1.0).epsilon(1e-12));
  CHECK(standard[2] / by_hand(0x1p-11) == doctest::Approx(1.0).epsilon(1e-12));
  CHECK(standard[3] / by_hand(0x1p-11) == doctest::Approx(1.0).epsilon(1e-12));
}

TEST_CASE("formats: certificates where something is stored in the format without a scale, and nothing more narrowly") {
  const auto certified = [](const std::string& format, const std::vector<std::string>& covers, const std::string& rest,
                            bool stochastic = false) {
    FormatsConfig config = tiny_config({format}, covers, rest);
    config.stochastic = stochastic;
    return stack_of(config).formats[1].certificate.has_value();
  };
  CHECK(certified("fp16", {}, "bf16"));
  CHECK(certified("bf16", {}, "fp16"));  // it covers everything, and nothing is left to the rest
  CHECK(certified("fp16", {"modules"}, "bf16"));
  CHECK_FALSE(certified("bf16", {"modules"}, "fp16"));  // FP16 overflows first
  CHECK_FALSE(certified("int8", {}, "bf16"));
  CHECK_FALSE(certified("fp8_e4m3", {}, "bf16"));  // scaled inputs and weights alone
  CHECK(certified("fp8_e4m3", {"stream", "inputs"}, "bf16"));
  CHECK_FALSE(certified("fp16", {}, "bf16", true));
}

TEST_CASE("formats: a certificate is for inputs with massive features too") {
  FormatsConfig config = tiny_config({"fp16"}, {}, "bf16");
  CHECK(stack_of(config).formats[1].certificate->certified);
  config.massive = 1e5;  // beyond FP16
  const formats::FormatsStack stack = stack_of(config);
  CHECK_FALSE(stack.formats[1].certificate->certified);
  CHECK(stack.formats[1].certificate->first.largest >= stack.largest_input);
}

TEST_CASE("formats: the certificate knows the weights of the first seed") {
  FormatsConfig config = tiny_config({"fp16", "bf16"}, {}, "bf16");
  config.base.model.gamma = 1e5;
  config.run.seed = 40;
  config.run.seeds = 2;
  const formats::FormatsStack stack = stack_of(config);
  CHECK(stack.seeds == 2);
  const formats::FormatResult& half = stack.formats[1];
  CHECK(half.variants[0].forward.seeds == 2);
  CHECK(half.variants[0].forward.of_first_seed);
  REQUIRE(half.certificate.has_value());
  CHECK_FALSE(half.certificate->certified);
  CHECK(half.certificate->first.largest > 65504.0);
  CHECK(half.certificate->first.signal == Signal::weights);
  REQUIRE(stack.formats[2].certificate.has_value());
  CHECK(stack.formats[2].certificate->certified);
  CHECK(stack.formats[2].variants[0].forward.seeds == 0);
}

}  // namespace
}  // namespace periscope::testing
