#include <algorithm>
#include <fstream>
#include <set>

#include "sim/base/error.h"
#include "sim/checkpoint/checkpoint_weights.h"
#include "sim/model/input.h"
#include "sim/model/key_value_cache.h"
#include "sim/model/loss.h"
#include "tests/checkpoint/edited_checkpoint.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/targets.h"

namespace periscope::testing {
namespace {

constexpr std::size_t no_limit = std::size_t{1} << 30U;

bool generates(const ModelSpec& model) { return model.causal && model.unembedding; }

std::vector<std::string> generating_fixtures() {
  std::vector<std::string> names = fixture_names();
  std::erase_if(names, [](const std::string& name) { return !generates(Checkpoint(fixture(name)).model()); });
  return names;
}

/// Returns 12 token ids, more than any fixture's window, or fewer if the model supports fewer.
std::vector<int> tokens_for(const ModelSpec& model) {
  const int length = model.max_tokens() > 0 ? std::min(12, model.max_tokens()) : 12;
  std::vector<int> ids;
  for (int t = 0; t < length; ++t) ids.push_back((5 * t * t + 3) % model.vocab);
  return ids;
}

/// Returns the logits [ids.size(), V] of one pass over all tokens.
Tensor whole_logits(const StackContext& c, std::span<const int> ids) {
  return logits_forward(c, stack_forward(c, embedding_forward(c, ids)).output);
}

/// Compares logits of token-by-token generation after a prompt with logits of one pass over all tokens. The reference
/// backend gives the same bits. On other backends, vector and remainder loops round exponentials differently; the bound
/// equals the bound of the comparison with transformers.
void check_generation(const std::string& name, const StackContext& c, DType dtype, std::size_t prompt) {
  CAPTURE(prompt);
  const Backend& ops = c.ops;
  const std::vector<int> ids = tokens_for(c.model);
  const std::vector<double> all = ops.to_host(whole_logits(c, ids));
  const auto vocab = static_cast<std::size_t>(c.model.vocab);
  KeyValueCache cache(c.model.layers, static_cast<Tensor::Index>(ids.size()));
  for (std::size_t end = prompt; end <= ids.size(); ++end) {
    const auto before = static_cast<std::size_t>(cache.tokens());
    const std::vector<double> here = ops.to_host(next_logits(c, cache, std::span(ids).subspan(before, end - before)));
    const std::span<const double> expected = std::span(all).subspan((end - 1) * vocab, vocab);
    CAPTURE(end);
    if (ops.name() == "reference") {
      check_same_bits(name + " token " + std::to_string(end), here, expected);
    } else {
      check_close_to_scale(name + " token " + std::to_string(end), here, expected, dtype == DType::f64 ? 1e-10 : 1e-5);
    }
  }
}

TEST_CASE("generation with cached keys and values gives the same logits as one pass over all tokens, in every family") {
  std::set<std::string_view> families;
  for (const std::string& name : generating_fixtures()) {
    families.insert(Checkpoint(fixture(name)).family().name);
    for (const Target& target : targets_and_truth()) {
      CAPTURE(target.name());
      const Checkpoint checkpoint(fixture(name));
      const CheckpointWeights weights(*target.backend, checkpoint, target.dtype, no_limit);
      const StackContext c{.ops = *target.backend, .model = checkpoint.model(), .weights = weights};
      for (const std::size_t prompt : {1U, 4U}) check_generation(name, c, target.dtype, prompt);
    }
  }
  CHECK(families.size() == family_table().size() - 1);  // BERT is not causal
  CHECK(!families.contains("bert"));
}

TEST_CASE("an interrupted pass does not change the key/value cache") {
  const Checkpoint checkpoint(fixture("gemma2"));
  const Target& target = targets().front();
  const Backend& ops = *target.backend;
  const CheckpointWeights weights(ops, checkpoint, target.dtype);
  const StackContext c{.ops = ops, .model = checkpoint.model(), .weights = weights};
  const std::vector<int> prompt{3, 9, 4}, next{7}, other{1, 2};
  const auto logits_after = [&](bool interrupted) {
    KeyValueCache cache(c.model.layers, 5);
    (void)next_logits(c, cache, prompt);
    if (interrupted) {
      StackContext cached = c;
      cached.cache = &cache;
      (void)stack_forward(cached, embedding_forward(cached, other));  // without advance()
    }
    return ops.to_host(next_logits(c, cache, next));
  };
  check_same_bits("after an interrupted pass", logits_after(true), logits_after(false));
}

TEST_CASE("generation with norms and gates inside modules gives the same logits as one pass") {
  for (const AttentionGate gate : {AttentionGate::head, AttentionGate::channel}) {
    StackSpec spec = placed(tiny_stack(), "pre");
    spec.input.kind = InputKind::tokens;
    spec.model.v_norm = true;
    spec.model.inner_norm = InnerNorm::both;
    spec.model.attention_gate = gate;
    const GeneratedWeights weights(truth(), spec, DType::f64, 3);
    const StackContext c{.ops = truth(), .model = spec.model, .weights = weights};
    check_generation("gate", c, DType::f64, 1);
  }
}

TEST_CASE("unsupported uses of the key/value cache throw") {
  const Target& target = targets().front();
  const auto attempt = [&](const std::string& name, int sequences, Tensor::Index capacity) {
    const Checkpoint checkpoint(fixture(name));
    const CheckpointWeights weights(*target.backend, checkpoint, target.dtype);
    const StackContext c{
        .ops = *target.backend, .model = checkpoint.model(), .weights = weights, .sequences = sequences};
    KeyValueCache cache(c.model.layers, capacity);
    (void)next_logits(c, cache, std::vector<int>{1, 2, 3, 4});
    StackContext cached = c;
    cached.cache = &cache;
    (void)backpropagate(cached, embedding_forward(cached, std::vector<int>{5}), std::vector<int>{1}, {});
  };
  CHECK_THROWS_AS(attempt("bert-old", 1, 9), std::invalid_argument);
  CHECK_THROWS_AS(attempt("llama", 2, 9), std::invalid_argument);
  CHECK_THROWS_AS(attempt("llama", 1, 3), std::length_error);
  CHECK_THROWS_AS(attempt("llama", 1, 9), std::logic_error);  // no backward pass
}

TEST_CASE("weights are cached up to the memory limit, and cached weights are not read again") {
  const Target& target = targets().front();
  const Checkpoint model(fixture("llama"));
  const auto size = static_cast<std::size_t>(model.model().width) * size_of(target.dtype);
  const std::size_t one_matrix = size * static_cast<std::size_t>(model.model().query_width(0));
  // Returns whether W_q and W_o are cached. Uncached reads throw, because the file has changed.
  const auto available = [&](std::size_t limit) {
    EditedCheckpoint edited("llama");
    const std::string folder = edited.write();
    const Checkpoint checkpoint(folder);
    const CheckpointWeights weights(*target.backend, checkpoint, target.dtype, limit);
    const auto values = [&](Weight weight) {
      return target.backend->to_host(weights.fetch(0).matrix(weight).map->dense());
    };
    const SublayerWeights there = weights.fetch(0);  // reads gains and biases
    const auto matrix = [&](Weight weight) { return target.backend->to_host(there.matrix(weight).map->dense()); };
    const std::vector<double> q = matrix(Weight::q);
    const std::vector<double> o = matrix(Weight::o);
    check_same_bits("W_q again", values(Weight::q), q);
    std::ofstream(folder + "/model.safetensors", std::ios::app) << "x";
    const auto same = [&](Weight weight, const std::vector<double>& before) {
      try {
        return matrix(weight) == before;
      } catch (const InputError&) {
        return false;
      }
    };
    return std::pair(same(Weight::q, q), same(Weight::o, o));
  };
  CHECK(available(no_limit) == std::pair(true, true));
  CHECK(available(0) == std::pair(false, false));
  const std::size_t vectors = 5 * size;  // a gain and up to four biases, smaller than a second matrix
  CHECK(available(one_matrix + vectors) == std::pair(true, false));
}

}  // namespace
}  // namespace periscope::testing
