#include "sim/checkpoint/checkpoint_gradients.h"

#include "tests/support/doctest.h"

#include "tests/checkpoint/edited_checkpoint.h"
#include "tests/checkpoint/parity.h"
#include "tests/support/finite_difference.h"
#include "tests/support/tolerances.h"

namespace periscope::testing {
namespace {

const std::vector<int> some_ids{3, 9, 4, 4, 10, 5};

double loss_of(EditedCheckpoint& edited) {
  return run_checkpoint(Checkpoint(edited.write()), some_ids, next_tokens(some_ids), truth_target()).at("loss").front();
}

TEST_CASE("gradients of stored tensors match finite differences of their values" * doctest::test_suite("slow")) {
  // These have fused, transposed, tied and reordered tensors, gains 1 + w, two RoPEs, a projected embedding, a head
  // transform, factors of branches, scores, layers and logits, LongRoPE, and keys that are values.
  for (const char* name :
       {"gpt2-bare", "gemma3-nested", "gemma4", "opt-post", "bert-old", "gpt_neox", "granite", "phi3", "glm4"}) {
    EditedCheckpoint edited(name);
    edited.tensors.erase("cls.predictions.decoder.weight");  // a tied copy
    const Checkpoint checkpoint(edited.write());
    const NamedTensors pass = run_checkpoint(checkpoint, some_ids, next_tokens(some_ids), truth_target());
    const ModelSpec& m = checkpoint.model();
    for (const auto& [tensor, uses] : checkpoint.uses()) {
      // Softmax ignores a key bias, so the derivative is 0.
      if (uses.size() == 1 && uses.front().parameter.weight == Weight::k &&
          uses.front().parameter.part == ParameterId::Part::bias)
        continue;
      std::vector<double>& numbers = edited.tensors.at(tensor).values;
      const std::vector<double> before = numbers;
      check_gradient(std::string(name) + ", " + tensor,
                     {.loss =
                          [&](std::span<const double> values) {
                            numbers.assign(values.begin(), values.end());
                            const double loss = loss_of(edited);
                            numbers = before;
                            return loss;
                          },
                      .point = before,
                      .gradient = pass.at("grad.weight." + tensor),
                      .loss_error = stack_error(m.sublayers(), m.mlp_width, DType::f64) * (1.0 + pass.at("loss")[0]),
                      .step = 1e-4},
                     1, 1);
    }
  }
}

TEST_CASE("the gradient of a tensor is reported once, after the last use of the tensor") {
  const Checkpoint checkpoint(fixture("gpt2-bare"));
  const Backend& ops = truth();
  std::vector<std::string> done;
  CheckpointGradients gradients(ops, checkpoint.map(), checkpoint.model(),
                                [&](const std::string& tensor, const std::vector<double>&) { done.push_back(tensor); });
  const int width = checkpoint.model().width;
  const Tensor square = ops.constant(width, width, DType::f64, 1.0);
  const ParameterGradient gradient([&] { return square; }, [] { return Tensor(); });
  gradients.on_gradient(matrix_id(0, Weight::q), gradient);
  gradients.on_gradient(matrix_id(0, Weight::v), gradient);
  CHECK(done.empty());
  gradients.on_gradient(matrix_id(0, Weight::k), gradient);
  CHECK(done == std::vector<std::string>{"h.0.attn.c_attn.weight"});
  CHECK_THROWS_AS(gradients.on_gradient(matrix_id(0, Weight::k), gradient), std::logic_error);
  CHECK(gradients.incomplete().size() == checkpoint.uses().size() - 1);
}

}  // namespace
}  // namespace periscope::testing
