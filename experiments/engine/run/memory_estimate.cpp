#include "experiments/engine/run/memory_estimate.h"

#include <fmt/format.h>
#include <omp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "experiments/engine/run/cost.h"
#include "experiments/engine/run/over_seeds.h"
#include "experiments/engine/settings/stack_rules.h"
#include "theory/passes/forward.h"
#include "theory/predict/predict.h"

namespace periscope::stacks {
namespace {

// Return the number of entries per token in all signals of attention or an MLP and in the stream before and after.
double attention_signals(const ModelSpec& m, int l) { return 3.0 * (m.width + m.query_width(l) + m.key_width(l)); }
double mlp_signals(const ModelSpec& m) { return (is_gated(m.mlp) ? 3.0 : 2.0) * m.mlp_width + 3.0 * m.width; }

double streams_of(const ModelSpec& m) { return m.ends().streams(); }

/// Returns the number of seeds that are measured concurrently.
double concurrent_seeds(const StackSpec& spec, const config::RunOptions& run, int seeds, int threads) {
  return one_seed_per_thread(spec, run, seeds, threads) ? std::min(threads, seeds) : 1;
}

constexpr double max_replicates = 16.0;  ///< replicates of theory that run concurrently

/// Returns the estimate of theory::predict_at_width: concurrent replicates of the finite-width chain (T25).
MemoryEstimate chain_memory(const StackSpec& spec, int threads) {
  const ModelSpec& m = spec.model;
  const double t = spec.input.tokens;
  const double rows = t * streams_of(m);
  const double frame = std::min<double>(rows + 1.0, m.width);
  MemoryEstimate chain;
  chain.add(8.0 * (rows * frame * 3.5 + t * t * 6.0), "input.tokens");
  const auto heads = [&](int layer) { return 3.0 * m.query_width(layer) + 2.0 * m.key_width(layer); };
  chain.add(8.0 * t * m.largest(heads), "model.heads");
  return chain.times(std::min<double>(threads, max_replicates));
}

constexpr double unlimited = std::numeric_limits<double>::infinity();

/// Returns the number after `word` in the first line that starts with it, such as "MemAvailable:   123 kB". Returns
/// nullopt if the file or the number is missing.
std::optional<double> number_in(const std::filesystem::path& file, std::string_view word = "") {
  std::ifstream stream(file);
  std::string line;
  while (std::getline(stream, line) && !line.starts_with(word)) continue;
  double number = 0.0;
  if (stream && std::istringstream(line.substr(word.size())) >> number) return number;
  return std::nullopt;
}

/// Returns the memory available under the limits of the process's control groups in bytes: the minimum over its own
/// group and all parents. The page cache counts as available, as the system can free it.
double available_in_cgroups() {
  std::ifstream groups("/proc/self/cgroup");
  double left = unlimited;
  for (std::string line; std::getline(groups, line);) {
    const bool second = line.starts_with("0::");
    const std::size_t first = line.find(":memory:");
    if (!second && first == std::string::npos) continue;
    const std::filesystem::path root = second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const std::string own = second ? line.substr(3) : line.substr(first + std::string(":memory:").size());
    for (std::filesystem::path group = own;; group = group.parent_path()) {
      const std::filesystem::path folder = root / group.relative_path();
      const auto limit = number_in(folder / (second ? "memory.max" : "memory.limit_in_bytes"));
      const auto used = number_in(folder / (second ? "memory.current" : "memory.usage_in_bytes"));
      if (limit && used) {
        const double files = number_in(folder / "memory.stat", "inactive_file ").value_or(0.0) +
                             number_in(folder / "memory.stat", "active_file ").value_or(0.0);
        left = std::min(left, *limit - std::max(0.0, *used - files));
      }
      if (!group.has_relative_path()) break;
    }
  }
  return left;
}

/// Returns the address space available under RLIMIT_AS in bytes, minus the stacks and heaps reserved by other threads.
double available_address_space(int threads) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited;
  const double used = number_in("/proc/self/statm").value_or(0.0) * static_cast<double>(sysconf(_SC_PAGESIZE));
  constexpr double reserved = 72e6;
  return static_cast<double>(limit.rlim_cur) - used - reserved * (threads - 1);
}

std::string format_bytes(double bytes) {
  if (bytes >= 1e12) return fmt::format("{:.3g} TB", bytes / 1e12);
  if (bytes >= 1e9) return fmt::format("{:.3g} GB", bytes / 1e9);
  return fmt::format("{:.0f} MB", bytes / 1e6);
}

}  // namespace

void MemoryEstimate::add(double part, std::string_view grows_with) {
  bytes += part;
  if (part <= largest) return;
  largest = part;
  key = grows_with;
}

MemoryEstimate MemoryEstimate::times(double count) const {
  return {.bytes = count * bytes, .key = key, .largest = count * largest};
}

void MemoryEstimate::add_phase(const MemoryEstimate& next) {
  if (next.bytes > bytes) *this = next;
}

double signal_entries(const ModelSpec& m) {
  double entries = m.layers * mlp_signals(m);
  for (int layer = 0; layer < m.layers; ++layer) entries += attention_signals(m, layer);
  return entries;
}

MemoryEstimate pass_memory(const ModelSpec& model, double tokens, DType dtype, bool backward, int threads,
                           bool whole_matrices) {
  const auto s = static_cast<double>(size_of(dtype));
  const double t = tokens;
  const double width = model.width;
  const double layers = model.layers;
  const double directions = backward ? 2.0 : 1.0;
  MemoryEstimate memory;
  const auto inside_attention = [&](int layer) { return attention_signals(model, layer); };
  const double inside = std::max(model.largest(inside_attention), mlp_signals(model));
  memory.add(s * t * (directions * inside + 6.0 * width * streams_of(model)), "input.tokens");
  constexpr double queries = 256.0;  // queries whose attention patterns exist at the same time
  memory.add(directions * s * t * std::min(t, queries) * std::min(threads, model.heads), "input.tokens");
  constexpr double statistics = 50.0;  // doubles per token and sublayer
  memory.add(8.0 * statistics * t * 2.0 * layers, "input.tokens");
  if (whole_matrices) {
    const int query = model.largest_query_width();
    const bool mlp = model.mlp_width > query;
    memory.add(directions * s * width * std::max(model.mlp_width, query), mlp ? "model.mlp_width" : "model.width");
  }
  if (backward) {
    memory.add(s * t * layers * width * streams_of(model), "input.tokens");
    const double classes = model.unembedding ? model.vocab : model.width;
    memory.add(s * classes * (2.0 * t + width), "model.vocab");
  }
  return memory;
}

MemoryEstimate reading_memory(const StackSpec& spec, const config::RunOptions& run, int seeds, int threads,
                              double copies) {
  const double at_once = concurrent_seeds(spec, run, seeds, threads);
  const bool matrix_free = draws_matrix_free(spec, run);
  const ModelSpec& m = spec.model;
  const double t = spec.input.tokens;
  const auto s = static_cast<double>(size_of(run.dtype));
  MemoryEstimate one = pass_memory(m, spec.input.tokens, run.dtype, run.backward, at_once > 1.0 ? 1 : threads,
                                   run.device != "cpu" && !matrix_free);
  if (matrix_free) {  // sampled and factorised rows, and their Gram matrices (T21)
    one.add((8.0 + s * (run.backward ? 6.0 : 1.0)) * t * std::max(m.width, m.mlp_width) + 24.0 * t * t, "input.tokens");
  }
  one.add(copies * s * t * signal_entries(m), "input.tokens");
  return one.times(at_once);
}

std::size_t tape_budget(const StackSpec& spec, const config::RunOptions& run, int seeds, int threads,
                        double available) {
  const auto least = static_cast<double>(StackTape().budget);
  // A matrix-free pass factorises signals anyway, so storing them saves little time. The memory of a GPU is unknown.
  const bool has_default = run.device == "cpu" && !draws_matrix_free(spec, run);
  if (!run.backward || (run.memory == 0.0 && !has_default)) return StackTape().budget;
  constexpr double default_bytes = 2.8e9;
  const double allowed =
      run.memory > 0.0 ? std::min(run.memory, 0.8 * available) : std::min(default_bytes, 0.5 * available);
  const double left = allowed - reading_memory(spec, run, seeds, threads).bytes;
  return static_cast<std::size_t>(std::clamp(left / concurrent_seeds(spec, run, seeds, threads), least, 0x1p62));
}

MemoryEstimate limit_memory(const StackSpec& spec, bool backward, int threads, bool all_tokens) {
  const double t = spec.input.tokens;
  std::optional<theory::TokenGrid> grid;
  if (!all_tokens || (backward && t > theory::max_gradient_tokens)) grid = theory::grid_for(spec);
  const double grid_tokens = grid ? static_cast<double>(grid->size()) : t;
  MemoryEstimate chain;
  // Pairs of kernels [T, T] of the stream, a module's input and output, and the branch; if backward, of all layers.
  chain.add(grid_tokens * grid_tokens * (120.0 + (backward ? 80.0 + 24.0 * spec.model.layers : 0.0)), "input.tokens");
  // Patterns of the grid's tokens over all tokens, and the keys and values of a head, each twice in float.
  if (grid) chain.add(8.0 * t * (grid_tokens + spec.model.head_dim), "input.tokens");
  if (grid && backward) {  // sums of two patterns over nodes, and signals of a head
    chain.add(4.0 * t * (6.0 * static_cast<double>(grid->nodes()) + 20.0 * spec.model.head_dim), "input.tokens");
  }
  if (backward && spec.model.unembedding) chain.add(8.0 * grid_tokens * spec.model.vocab, "model.vocab");
  MemoryEstimate all = chain.times(std::min<double>(threads, max_replicates));
  constexpr double profiles = 64.0 * 60.0;  // 60 numbers per sublayer for each of 64 replicates, stored until averaged
  all.add(8.0 * profiles * 2.0 * spec.model.layers, "model.layers");
  return all;
}

MemoryEstimate scaled_limit_memory(const StackSpec& spec, int threads) {
  const double t = spec.input.tokens;
  const double terms = 1.0 + spec.model.sublayers();
  const double chains = std::min<double>(threads, max_replicates);
  MemoryEstimate all = limit_memory(spec, false, threads);
  all.add(chains * terms * 40.0 * t * t, "input.tokens");
  all.add(chains * 8.0 * spec.model.width * (3.0 * terms + 5.0 * t), "model.width");
  return all;
}

MemoryEstimate gram_memory(const ModelSpec& m) {
  const double mlp = (is_gated(m.mlp) ? 3.0 : 2.0) * m.mlp_width;
  const double attention = 4.0 * m.largest_query_width();
  MemoryEstimate memory;
  // A module's matrices, each as a tensor and as an Eigen matrix.
  memory.add(16.0 * m.width * std::max(mlp, attention), mlp > attention ? "model.mlp_width" : "model.width");
  memory.add(24.0 * m.width * static_cast<double>(m.width), "model.width");
  return memory;
}

MemoryEstimate stacks_memory(const config::Config& config, bool at_width, bool measures, int threads) {
  MemoryEstimate all;
  for (const StackSpec& spec : config.predicted_stacks()) {
    all.add_phase(limit_memory(spec, config.run.backward, threads, config.theory.precision_was_given()));
    if (at_width) all.add_phase(chain_memory(spec, threads));
  }
  for (const StackSpec& spec : config.stacks()) {
    if (measures) all.add_phase(reading_memory(spec, config.run, config.run.seeds, threads));
  }
  return all;
}

MemoryEstimate widths_memory(const config::Config& config, const std::vector<int>& widths, int seeds, int threads) {
  MemoryEstimate all;
  for (const int width : widths) {
    for (const StackSpec& spec : config.predicted_stacks()) {
      all.add_phase(limit_memory(config::at_width(spec, width), config.run.backward, threads));
    }
    for (const StackSpec& spec : config.stacks()) {
      all.add_phase(reading_memory(config::at_width(spec, width), config.run, seeds, threads));
    }
  }
  return all;
}

double available_bytes(int threads) {
  const std::optional<double> machine = number_in("/proc/meminfo", "MemAvailable:");
  return std::min({machine ? 1024.0 * *machine : unlimited, available_in_cgroups(), available_address_space(threads)});
}

void require_fits(const MemoryEstimate& memory, bool force, Progress& progress) {
  const int threads = omp_get_max_threads();
  const double available = std::max(0.0, available_bytes(threads));
  if (memory.bytes > available && !force) {
    throw ConfigError(
        fmt::format("memory estimate {}: expected at most {} (available memory); lower {}, or use --force",
                    format_bytes(memory.bytes), format_bytes(available), memory.key));
  }
  constexpr double min_reported = 1e9;
  if (memory.bytes > min_reported) progress.say(fmt::format("memory estimate: {}\n", format_bytes(memory.bytes)));
}

OutOfMemory out_of_memory(const MemoryEstimate& memory) {
  return {ExitCode::runtime_failure, fmt::format("not enough memory: the memory estimate is {}; lower {}",
                                                 format_bytes(memory.bytes), memory.key)};
}

}  // namespace periscope::stacks
