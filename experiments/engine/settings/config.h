#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/engine/settings/section.h"
#include "sim/base/enumerators.h"
#include "sim/core/tensor.h"
#include "sim/spec/stack_keys.h"
#include "theory/modules/fault.h"

namespace periscope::config {

/// How random matrices are sampled: all entries (dense), or only their products with the input rows (matrix-free, T21).
enum class WeightsChoice { automatic, dense, matrix_free };
inline constexpr std::array<std::string_view, 3> weights_choice_names{"auto", "dense", "matrix-free"};
static_assert(are_names_of<WeightsChoice>(weights_choice_names));

inline constexpr int max_threads = 1024;

/// Settings of a run: the section [run] and the flags of the same names.
struct RunOptions {
  std::uint64_t seed = 0;  ///< first seed; seed i of a run is seed + i
  int seeds = 8;
  int threads = 0;  ///< 0: OMP_NUM_THREADS, else all cores
  std::string device = "cpu";
  std::optional<DType> dtype_choice;  ///< explicit value of run.dtype
  DType dtype = DType::f32;           ///< effective dtype; by default f32, or f64 if the device supports only that
  bool backward = false;              ///< measure and predict gradients too
  bool paired = true;                 ///< use the same random numbers for all stacks (twins)
  /// Request::load sets this to `dense` for commands that need whole matrices.
  WeightsChoice weights = WeightsChoice::automatic;
  std::string out;      ///< folder for results; "" for none
  double memory = 0.0;  ///< bytes available to a backward pass; 0: the default of tape_budget
};

/// Returns the valid range of numbers of seeds, up to 1e6, so that totals over stacks and widths fit in an int.
constexpr Range seeds_from(double fewest) { return from_to(fewest, 1e6); }

/// Limits on detectable errors (T22). Above a limit the verdict is inconclusive; see docs/theory/verdicts.md.
struct PowerLimits {
  double second_moment = 0.2;  ///< relative
  double variance = 0.2;       ///< relative
  double token_cosine = 0.2;   ///< absolute
  double log_grad_sq = 0.5;    ///< difference of logarithms
  double score_share = 0.1;    ///< absolute
};

/// Section [agreement]: criteria for agreement of measurement and theory (T19).
struct AgreementOptions {
  double familywise_error = 0.01;      ///< probability that a run rejects at least one test if the theory is right
  double finite_width = 0.5;           ///< constant c of the tolerated bias (T19) of moments, relative
  double finite_width_cosine = 1.0;    ///< constant c of cosines (absolute) and of attention's output (relative)
  double finite_width_gradient = 1.0;  ///< constant c of logarithms of gradients, absolute
  PowerLimits power_limits = {};
};

/// Section [theory]: precision of the prediction, and a planted fault.
struct TheoryOptions {
  /// Explicit tolerances are met at any cost. The defaults are met only if this costs no more than the measurement
  /// (experiments/engine/run/cost.h).
  std::optional<double> tolerance;
  std::optional<double> gradient_tolerance;
  [[nodiscard]] double wanted_tolerance() const { return tolerance.value_or(0.01); }
  [[nodiscard]] double wanted_gradient_tolerance() const { return gradient_tolerance.value_or(0.03); }
  [[nodiscard]] bool precision_was_given() const { return tolerance || gradient_tolerance; }
  theory::Fault fault = theory::Fault::none;
  /// Predict forward statistics at the stack's own widths (T25), not at infinite width; the command sets the default.
  std::optional<bool> finite_width;
  int replicates = 0;  ///< number of replicates of the finite-width chain (T25); 0: chosen from the number of seeds
};

extern const Section<RunOptions> run_section;
extern const Section<TheoryOptions> theory_section;
extern const Section<AgreementOptions> agreement_section;
extern const Section<PowerLimits> power_limit_section;

/// A stack of a comparison: its name in results, and settings "a.b=value" that take precedence over those of all
/// stacks.
struct Candidate {
  std::string label;
  std::vector<std::string> settings;
};

/// A configuration, read from a file, --set and flags: the stacks and the settings for measuring and predicting them.
/// Studies derive from it to add their sections.
struct Config {
  StackSpec base;                                      ///< the first stack
  std::vector<StackSpec> variants;                     ///< all combinations of a sweep; empty without a sweep
  std::vector<InputKind> inputs{InputKind::gaussian};  ///< input kinds, each used with every stack
  RunOptions run;
  AgreementOptions agreement;
  TheoryOptions theory;
  std::vector<std::string> theory_settings;  ///< arguments of --theory-set
  std::vector<StackSpec> overridden;         ///< every stack with --theory-set applied; empty without overrides
  Tree tree;                                 ///< parsed file and settings
  std::set<std::string> given;               ///< explicitly set keys, such as "model.width"

  [[nodiscard]] bool is_set(const std::string& key) const { return given.contains(key); }
  /// Returns the stacks of a run, input kinds in the outer loop, each with the differences set by note_differences.
  [[nodiscard]] std::vector<StackSpec> stacks() const;
  [[nodiscard]] std::size_t stacks_per_input() const { return variants.empty() ? 1 : variants.size(); }
  /// Returns `base` with `placement` and its norms, except where norms are set explicitly.
  [[nodiscard]] StackSpec with_placement(const Placement& placement) const;
  /// Returns the stacks that the theory assumes: `overridden`, or stacks() if there are no overrides.
  [[nodiscard]] std::vector<StackSpec> predicted_stacks() const { return overridden.empty() ? stacks() : overridden; }
};

/// Reads `file` ("": no file), applies `settings` ("a.b=v") and validates the result. `known` lists the valid sections.
/// Lists of values for keys of model, init and input form a sweep: the stacks are their cross product, in the given
/// order. A relative input.path in the file is resolved against the file's folder. `theory_settings` (--theory-set)
/// apply to the theory only. `candidates`, if any, are the stacks instead of a sweep, without --theory-set. Throws
/// ConfigError for invalid settings, and if measurement and prediction could not be compared. Text files are read only
/// for several stacks, to compare them (throws InputError); else call read_texts.
Config load_config(std::span<const AnySection> known, const std::string& file, const std::vector<std::string>& settings,
                   const std::vector<std::string>& theory_settings = {}, const std::vector<Candidate>& candidates = {});
/// The same for a configuration that is already parsed.
Config load_config(std::span<const AnySection> known, const Tree& tree,
                   const std::vector<std::string>& theory_settings = {}, const std::vector<Candidate>& candidates = {});

/// Reads a file of text or token ids. Throws InputError, prefixed with `name`, unless `path` is a regular file that
/// does not change during the read.
TextFile read_text_file(const std::string& path, const std::string& name = {});

/// Returns the text of an input of kind `text`. Throws std::logic_error unless read_texts was called.
const TextFile& text_of(const InputSpec& input);

/// Text files by path, shared by configurations and threads.
struct TextFiles {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const TextFile>> files;
};

/// Loads the missing texts of all stacks, each file once. `texts`, if not null, keeps the files of earlier calls.
/// Throws InputError.
void read_texts(Config& config, TextFiles* texts = nullptr);

/// Throws ConfigError unless each argument of --vary sets a key of model, init or input, or train.lr, to a list.
void require_variations(std::span<const AnySection> known, const std::vector<std::string>& variations);

/// Throws ConfigError if two entries of the list `key` are equal, as entries identify results.
void require_different(std::string_view key, std::vector<std::string> entries);

inline constexpr std::array all_dtypes{DType::f64, DType::f32, DType::bf16, DType::f16};
/// Parses a dtype. Throws ConfigError for an unknown name.
DType parse_dtype(const std::string& word);
/// Looks up a number format by name. Throws ConfigError, naming the flag and listing the known names.
NumberFormat parse_format(const std::string& word, std::string_view flag = "--format");

/// Returns all keys of model, init and input with their values, `placement` as a name or a table. With `for_hash` the
/// SHA-256 of a text replaces its path, which requires read_texts.
Json resolved_json(const StackSpec& spec, bool for_hash = false);

/// Returns the stack's name in results and tables: its label, else the name of its placement, else its JSON.
std::string placement_label(const StackSpec& spec);
/// Returns the stack's name in progress lines: as placement_label, but "custom" for a placement without a name.
std::string short_label(const StackSpec& spec);

}  // namespace periscope::config
