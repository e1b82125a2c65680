#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "experiments/engine/settings/config.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/study/study.h"
#include "experiments/studies/probe/replay.h"
#include "python/bindings/bindings.h"
#include "python/bindings/worker_thread.h"
#include "sim/base/error.h"
#include "sim/checkpoint/checkpoint.h"
#include "sim/core/memory_reserve.h"
#include "sim/core/op_types.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace periscope::python {
namespace {

using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
/// Sublayer, name of the signal, whether the values are its gradient, values.
using GivenSignal = std::tuple<int, std::string, bool, Matrix>;
/// Layer, name of the matrix, sum of squares of its gradient.
using GivenGradient = std::tuple<int, std::string, double>;

template <class Names>
std::size_t index_of(const Names& names, const std::string& word, const char* kind) {
  const auto found = std::ranges::find(names, word);
  if (found == names.end()) throw InputError(fmt::format("{} {}: unknown name", kind, word));
  return static_cast<std::size_t>(found - names.begin());
}

/// Returns, as JSON, a model's layers and norms, and the tensor that stores each parameter.
std::string layout(const Model& model) {
  std::optional<Checkpoint> opened;
  run_on_worker([&] { opened.emplace(model.memory); });
  const ModelSpec& m = opened->model();
  nlohmann::ordered_json parts;
  for (const auto& [tensor, uses] : opened->uses()) {
    for (const ParameterMap::Use& use : uses) {
      const bool is_matrix_or_gain =
          use.parameter.part == ParameterId::Part::matrix || use.parameter.part == ParameterId::Part::gain;
      if (!is_matrix_or_gain) continue;
      // The order inside blocks does not matter to recorded maxima and sums of squares.
      const std::int64_t block = use.part.order.empty() ? use.rows : std::ssize(use.part.order);
      parts.push_back({{"tensor", tensor},
                       {"weight", name_of(use.parameter.weight)},
                       {"sublayer", use.parameter.sublayer},
                       {"first", use.part.first},
                       {"rows", use.rows},
                       {"block", block},
                       {"stride", use.part.order.empty() ? block : use.part.stride},
                       {"transposed", use.part.transposed}});
    }
  }
  nlohmann::ordered_json scores;  // by layer
  for (int layer = 0; layer < m.layers; ++layer) {
    const AttentionShape shape{m.heads, m.kv_heads_at(layer), m.head_dim_at(layer), 1, m.causal, m.scores_at(layer)};
    scores.push_back({{"scale", shape.scale()}, {"soft_cap", shape.scores.soft_cap}, {"window", shape.scores.window}});
  }
  nlohmann::ordered_json rules;
  for (int l = 0; l < m.sublayers(); ++l) {
    const SublayerRule rule = m.rule(l);
    rules.push_back({{"norm_a", rule.norm_a}, {"norm_b", rule.norm_b}, {"norm_c", rule.norm_c}});
  }
  std::vector<bool> rotates, v_norm;
  std::vector<int> kv_heads;
  for (int layer = 0; layer < m.layers; ++layer) {
    kv_heads.push_back(m.kv_heads_at(layer));
    // With QK-norm, queries and keys are recorded at the call of the rotation, which layers without RoPE also have.
    rotates.push_back(m.qk_norm_at(layer) != QkNorm::none ||
                      std::ranges::any_of(m.rope_frequencies_at(layer), [](double f) { return f != 0.0; }));
    v_norm.push_back(m.v_norm_at(layer));
  }
  return config::json_text({{"heads", m.heads},
                            {"kv_heads", kv_heads},
                            {"rotates", rotates},
                            {"v_norm", v_norm},
                            {"parallel", m.steps() != m.sublayers()},
                            {"causal", m.causal},
                            {"scores", scores},
                            {"rules", rules},
                            {"parameters", parts}});
}

std::shared_ptr<Result> replay(const Model& model, const std::vector<int>& lengths, const std::vector<int>& ids,
                               const std::vector<int>& labels, const std::vector<GivenSignal>& signals,
                               const std::vector<GivenGradient>& gradients, const std::optional<Matrix>& logits,
                               const std::string& dtype, double unit_roundoff, int top) {
  probe::OutsidePass pass{.lengths = lengths, .ids = ids, .labels = labels, .unit_roundoff = unit_roundoff};
  for (const auto& [sublayer, name, is_gradient, values] : signals) {
    const auto signal = static_cast<Signal>(index_of(signal_names, name, "signal"));
    pass.signals.push_back({.at = {sublayer, signal, is_gradient ? Pass::backward : Pass::forward},
                            .rows = static_cast<std::int64_t>(values.shape(0)),
                            .cols = static_cast<std::int64_t>(values.shape(1)),
                            .values = {values.data(), values.size()}});
    pass.backward = pass.backward || is_gradient;
  }
  for (const auto& [layer, name, squares] : gradients) {
    const auto weight = static_cast<Weight>(index_of(weight_names, name, "matrix"));
    pass.gradients.emplace_back(matrix_id(layer, weight), squares);
    pass.backward = true;
  }
  if (logits && logits->shape(0) == ids.size()) pass.logits = {logits->data(), logits->size()};
  const auto result = std::make_shared<Result>();
  const auto start = std::chrono::steady_clock::now();
  run_on_worker([&] {
    result->study = &find_study("probe");
    result->job = study::Job{.file = "", .run_options = {}, .resolved = {}, .run = {}};
    result->threads = study::threads_of(result->job->run_options);
    result->outcome = probe::replay(model.memory, pass, config::parse_dtype(dtype), top);
    study::add_provenance(*result->study, *result->job, result->outcome);
    free_idle_memory();
  });
  result->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace

void add_recording(nb::module_& module) {
  module.def("layout", &layout, "model"_a,
             "Returns sizes and norms of a model, and the tensors of its parameters, as JSON.");
  module.def("replay", &replay, "model"_a, "lengths"_a, "ids"_a, "labels"_a, "signals"_a, "gradients"_a, "logits"_a,
             "dtype"_a, "unit_roundoff"_a, "top"_a, "Returns the result of a pass that another program computed.");
}

}  // namespace periscope::python
