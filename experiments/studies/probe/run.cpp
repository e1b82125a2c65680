#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <map>
#include <memory>

#include "experiments/engine/run/cost.h"
#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/run/pass_progress.h"
#include "experiments/engine/run/tensor_dump.h"
#include "experiments/engine/run/threads.h"
#include "experiments/engine/run/weight_scales_of.h"
#include "experiments/engine/settings/resolved.h"
#include "experiments/engine/study/request.h"
#include "experiments/studies/probe/probe.h"
#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/checkpoint/checkpoint_gradients.h"
#include "sim/checkpoint/checkpoint_weights.h"
#include "sim/checkpoint/finite_weights.h"
#include "sim/files/output_folder.h"

namespace periscope::probe {
namespace {

std::vector<SafetensorsEntry> entries_of(const Checkpoint& checkpoint, const ModelPass& pass, bool has_loss) {
  const auto tokens = static_cast<std::int64_t>(pass.ids.size());
  std::vector<SafetensorsEntry> entries = stacks::pass_entries(checkpoint.model(), tokens, pass.backward);
  entries.push_back({"tokens", SafetensorsType::i64, {tokens}});
  if (has_loss) entries.push_back({"loss", SafetensorsType::f64, {1}});
  for (const auto& [tensor, uses] : checkpoint.uses()) {
    if (pass.backward) entries.push_back({"grad.weight." + tensor, SafetensorsType::f64, stored_shape(uses)});
  }
  return entries;
}

/// Runs the pass and writes its values to `output`, a safetensors file in f64, so that another program can check them:
/// input [T, D] (before the embedding norm), tokens and labels [T], stream.0 … stream.2L [T, D], logits, loss [1] if a
/// token has a label and, with backward, grad.stream.… and grad.weight.<tensor of the checkpoint> in its stored shape.
ModelReading dump_model(const StackContext& c, const Checkpoint& checkpoint, ModelPass pass, OutputFile& output) {
  const bool has_loss = std::ranges::any_of(pass.labels, [](int label) { return label != no_label; });
  stacks::TensorFile file(c.ops, output, entries_of(checkpoint, pass, has_loss));
  stacks::StreamDump streams(c.ops, c.model, file);
  CheckpointGradients gradients(c.ops, checkpoint.map(), checkpoint.model(),
                                [&](const std::string& tensor, const std::vector<double>& gradient) {
                                  file.put("grad.weight." + tensor, gradient);
                                });
  pass.hooks.recorders.push_back(&streams);
  pass.hooks.gradients.push_back(&gradients);
  ModelReading reading = read_model(c, pass);
  file.put("input", reading.input);
  file.put("tokens", pass.ids);
  file.put("labels", pass.labels);
  file.put("logits", reading.logits);
  if (has_loss) file.put("loss", reading.loss);
  file.close();
  return reading;
}

ModelReading measure(const StackContext& context, const Checkpoint& checkpoint, const stacks::TokenInput& input,
                     const ProbeConfig& own, stacks::Progress& progress, std::optional<Emission>& not_finite) {
  progress.begin("probe", 1);
  progress.next("the checkpoint");
  const bool small = stacks::is_small_pass(context.model, static_cast<int>(input.ids.size()), own.run.backward);
  const stacks::Threads threads = stacks::Threads::one_if(small);
  stacks::PassProgress steps(progress, context.model.sublayers(), own.run.backward, true);
  FiniteRecorder finite(context.ops);
  const ModelPass pass{.ids = input.ids,
                       .labels = input.labels,
                       .backward = own.run.backward,
                       .top = own.top,
                       .hooks = {.recorders = {&steps, &finite}}};
  ModelReading reading;
  if (own.dump.empty()) {
    reading = read_model(context, pass);
  } else {
    OutputFolder files(own.dump, {"activations.safetensors"}, own.force);
    reading = dump_model(context, checkpoint, pass, files.file(0));
    files.commit();
  }
  progress.step("the checkpoint");
  not_finite = finite.first();
  return reading;
}

/// Returns the name of a NaN or infinite weight that the run reads, or nullopt. Ignores unused table rows.
std::optional<std::string> non_finite_weight(const Checkpoint& checkpoint, const std::vector<int>& ids) {
  std::map<Weight, std::vector<int>> read;
  for (const Weight table : {Weight::embedding, Weight::positions, Weight::token_types}) {
    read[table] = stacks::rows_in_use(checkpoint.model().embedding, table, ids);
  }
  return find_non_finite_weight(checkpoint, [&](const ParameterId& id, std::int64_t row) {
    return !is_table(id.weight) || std::ranges::count(read.at(id.weight), row) > 0;
  });
}

std::vector<std::string> notes_of(const Checkpoint& checkpoint, const stacks::TokenInput& input) {
  std::vector<std::string> notes = input.notes;
  notes.insert(notes.end(), checkpoint.warnings().begin(), checkpoint.warnings().end());
  if (checkpoint.tied()) {
    notes.emplace_back("embedding and head share one matrix; theory at initialisation assumes independent ones");
  }
  for (int layer = 0; layer < checkpoint.model().layers; ++layer) {
    const StoredPart& k = *checkpoint.map().find(matrix_id(layer, Weight::k));
    const StoredPart& v = *checkpoint.map().find(matrix_id(layer, Weight::v));
    if (k.tensor != v.tensor || k.first != v.first) continue;
    notes.emplace_back(
        "some keys and values share one matrix; theory and random models of equal sizes assume independent ones");
    break;
  }
  const auto positions = checkpoint.config().find("max_position_embeddings");
  if (positions != checkpoint.config().end() && positions->is_number_integer() &&
      positions->get<std::int64_t>() < static_cast<std::int64_t>(input.ids.size())) {
    notes.push_back(fmt::format("{} tokens, more than max_position_embeddings = {}", input.ids.size(),
                                positions->get<std::int64_t>()));
  }
  return notes;
}

void compare_with_nulls(const Backend& ops, const WeightSource& weights, const ProbeConfig& config,
                        stacks::Progress& progress, ProbeResult& result) {
  progress.begin("random models with the weights' sizes",
                 static_cast<std::int64_t>(stacks::size_nulls.size()) * config.draws);
  for (std::size_t i = 0; i < stacks::size_nulls.size(); ++i) {
    const stacks::SizeNull& null = stacks::size_nulls[i];
    progress.throw_if_stop_requested();
    if (null.preserved) {
      const StackSpec sized = stacks::with_scales_of(ops, result.at_init, weights, result.input.ids, *null.preserved);
      theory::Prediction& predicted = result.nulls[i].predicted;
      predicted = predict_initial(sized, result.input, config, false, progress);
      if (i == stacks::matrices_null && !predicted.unsupported.empty() && result.initial.unsupported.empty()) {
        result.notes.push_back("no prediction from the sizes of the weights: " + predicted.unsupported);
      }
    } else {
      result.nulls[i].predicted.unsupported = "this null is simulated, not predicted";
    }
    const auto step = [&] {
      progress.throw_if_stop_requested();
      progress.step(std::string(null.name));
    };
    result.nulls[i].drawn = stacks::draw_null(ops, result.at_init, weights, result.input.ids, 1, null, config.run.dtype,
                                              config.run.seed, config.draws, step);
  }
}

// clang-format off
constexpr Key<ProbeConfig> keys[] = {
    {.name = "top", .field = &ProbeConfig::top, .meaning = "number of largest stream entries reported per depth"},
    {.name = "theory", .field = &ProbeConfig::with_theory, .meaning = "also compute the theory at initialisation and at the scales of the weights"},
    {.name = "draws", .field = &ProbeConfig::draws, .meaning = "number of random models per null"},
};
// clang-format on
constexpr Section<ProbeConfig> section{"probe", keys};

config::Resolved resolved_of(const ProbeConfig& config, const nlohmann::ordered_json& files,
                             const ProbeResult& result) {
  config::Resolved all = config::resolved(config, {result.at_init});
  all.add(section, config);
  for (auto* json : {&all.printed, &all.hashed}) (*json)["checkpoint"] = files;
  all.hashed["ids"] = result.input.ids;
  all.hashed["labels"] = result.input.labels;
  return all;
}

}  // namespace

ProbeResult run(const ProbeConfig& config, stacks::Progress& progress) {
  const std::unique_ptr<Checkpoint> opened = config.open();
  const Checkpoint& checkpoint = *opened;
  const nlohmann::ordered_json files = study::hashes_of(checkpoint);  // hash first: files may change during the run
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  const CheckpointWeights weights(*backend, checkpoint, config.run.dtype);
  const StackContext context{.ops = *backend, .model = checkpoint.model(), .weights = weights};
  stacks::TokenInput input = stacks::read_token_input(config, checkpoint.model(), config.checkpoint);
  if (config.run.backward && !input.has_labels()) {
    throw ConfigError(fmt::format("--backward: expected a loss; {}", input.notes.back()));
  }
  const auto tokens = static_cast<int>(input.ids.size());
  ProbeResult result =
      result_of(checkpoint, config.model_name(), config, std::move(input), tokens, "skipped by --no-theory");
  const int threads = omp_get_max_threads();
  stacks::MemoryEstimate memory =
      stacks::pass_memory(context.model, result.at_init.input.tokens, config.run.dtype, config.run.backward, threads);
  if (config.with_theory) {
    memory.add_phase(stacks::limit_memory(result.at_init, config.run.backward, threads));
    memory.add_phase(stacks::scaled_limit_memory(result.at_init, threads));
  }
  memory.key = "--max-tokens";
  stacks::within_memory(memory, config.force, progress, [&] {
    result.measured = measure(context, checkpoint, result.input, config, progress, result.not_finite);
    progress.throw_if_stop_requested();
    if (config.with_theory) {
      result.initial = predict_initial(result.at_init, result.input, config, config.run.backward, progress);
      progress.throw_if_stop_requested();
      compare_with_nulls(*backend, weights, config, progress, result);
    }
    result.notes = notes_of(checkpoint, result.input);
    if (!not_finite(result).empty()) {
      if (const auto bad = non_finite_weight(checkpoint, result.input.ids)) result.notes.push_back(*bad);
    }
    if (!result.initial.left_out.empty()) result.notes.push_back(result.initial.left_out);
    for (std::size_t i = 0; i < result.nulls.size(); ++i) {
      const std::string& lack = result.nulls[i].predicted.left_out;
      if (!lack.empty()) result.notes.push_back(fmt::format("{}: {}", stacks::size_nulls[i].name, lack));
    }
    result.resolved = resolved_of(config, files, result);
  });
  return result;
}

}  // namespace periscope::probe
