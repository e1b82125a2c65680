#pragma once

#include <array>
#include <cstdint>
#include <memory>
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

/// How random matrices are drawn: every entry (dense), or only their products with the rows they read (matrix-free,
/// T21).
enum class WeightsChoice { automatic, dense, matrix_free };
inline constexpr std::array<std::string_view, 3> weights_choice_names{"auto", "dense", "matrix-free"};
static_assert(are_names_of<WeightsChoice>(weights_choice_names));

inline constexpr int max_threads = 1024;

/// A run's settings: [run] of the configuration, and the flags of the same names.
struct RunOptions {
  std::uint64_t seed = 0;  ///< first seed; seed i of a run is seed + i
  int seeds = 8;
  int threads = 0;  ///< 0: OMP_NUM_THREADS, else all cores
  std::string device = "cpu";
  std::optional<DType> dtype_choice;  ///< as given
  DType dtype = DType::f32;           ///< as used: f32, or f64 on a device that knows nothing else
  bool backward = false;              ///< measure gradients too
  bool paired = true;                 ///< same random numbers for all stacks (twins)
  /// Commands that need a matrix whole have made this `dense`.
  WeightsChoice weights = WeightsChoice::automatic;
  std::string out;      ///< folder for results, "" for none
  double memory = 0.0;  ///< bytes that a backward pass may use; 0: as tape_budget says
};

/// Returns the range of allowed numbers of seeds, of a run or of a width: from `fewest` to 1e6, so that the sum over
/// all stacks and widths fits an int.
constexpr Range seeds_from(double fewest) { return from_to(fewest, 1e6); }

/// Limits of the detectable errors (T22), above which a verdict is inconclusive; derived in docs/theory/verdicts.md.
struct PowerLimits {
  double second_moment = 0.2;  ///< relative
  double variance = 0.2;       ///< relative
  double token_cosine = 0.2;   ///< absolute
  double log_grad_sq = 0.5;    ///< difference of logarithms
  double score_share = 0.1;    ///< absolute
};

/// [agreement]: when measurement and theory agree (T19).
struct AgreementOptions {
  double familywise_error = 0.01;      ///< chance of any rejected test in a run if theory is right
  double finite_width = 0.5;           ///< c of T19 for moments, on relative differences
  double finite_width_cosine = 1.0;    ///< for cosines (absolute) and the size of attention's output (relative)
  double finite_width_gradient = 1.0;  ///< for gradients, on differences of logarithms
  PowerLimits power_limits = {};
};

/// [theory]: precision of the prediction, and a planted fault.
struct TheoryOptions {
  /// Wanted precision, at any cost; nullopt: that of theory::PredictionOptions, unless it costs more than the
  /// measurement (experiments/engine/run/cost.h).
  std::optional<double> tolerance;
  std::optional<double> gradient_tolerance;
  [[nodiscard]] double wanted_tolerance() const { return tolerance.value_or(0.01); }
  [[nodiscard]] double wanted_gradient_tolerance() const { return gradient_tolerance.value_or(0.03); }
  [[nodiscard]] bool precision_was_given() const { return tolerance || gradient_tolerance; }
  theory::Fault fault = theory::Fault::none;
  /// Forward statistics at the stack's own widths (T25) instead of the limit; the default depends on the command.
  std::optional<bool> finite_width;
  int replicates = 0;  ///< of the finite-width chain (T25); 0: from the number of seeds
};

extern const Section<RunOptions> run_section;
extern const Section<TheoryOptions> theory_section;
extern const Section<AgreementOptions> agreement_section;
extern const Section<PowerLimits> power_limit_section;

/// A configuration: the stacks that the file, --set and the flags describe, and how they are measured and predicted.
/// Studies derive from it to add their sections.
struct Config {
  StackSpec base;                                      ///< the first stack
  std::vector<StackSpec> variants;                     ///< the cross product of lists; empty: only `base`
  std::vector<InputKind> inputs{InputKind::gaussian};  ///< of every stack
  RunOptions run;
  AgreementOptions agreement;
  TheoryOptions theory;
  std::vector<std::string> theory_settings;  ///< as given by --theory-set
  std::vector<StackSpec> overridden;         ///< every stack with --theory-set applied; empty without it
  Tree tree;                                 ///< the source of all this
  std::set<std::string> given;               ///< the keys that the file and the settings set, as "model.width"

  [[nodiscard]] bool is_set(const std::string& key) const { return given.contains(key); }
  /// Returns the stacks of a run, inputs outermost, each with its differences from the others.
  [[nodiscard]] std::vector<StackSpec> stacks() const;
  [[nodiscard]] std::size_t stacks_per_input() const { return variants.empty() ? 1 : variants.size(); }
  /// Returns `base` with another placement, and with the placement's norms unless others are given.
  [[nodiscard]] StackSpec with_placement(const Placement& placement) const;
  /// Returns the stacks that theory predicts.
  [[nodiscard]] std::vector<StackSpec> predicted_stacks() const { return overridden.empty() ? stacks() : overridden; }
};

/// Reads `file` ("" for none), applies `settings` (a.b=v), and checks everything. `known` are the sections that a
/// configuration may have. Keys of model, init and input may have lists: the stacks are their cross product, in the
/// order given. A relative input.path in a file is relative to that file. `theory_settings` (--theory-set) are further
/// settings for theory alone. Throws ConfigError, also if measurement and prediction could not be compared. Reads texts
/// only of several stacks, to compare them, and throws InputError for these; read_texts reads the others.
Config load_config(std::span<const AnySection> known, const std::string& file, const std::vector<std::string>& settings,
                   const std::vector<std::string>& theory_settings = {});

/// Reads a file of text or token ids. Throws InputError (prefixed with `name`, if given) unless `path` is a regular
/// file that stays unchanged meanwhile.
TextFile read_text_file(const std::string& path, const std::string& name = {});

/// Returns the text of an input of kind `text`. Throws std::logic_error unless read_texts was called.
const TextFile& text_of(const InputSpec& input);

/// Reads the texts of all stacks that have none yet, each file once. Throws InputError.
void read_texts(Config& config);

/// Throws ConfigError unless each variation (--vary) sets a key of model, init or input, or train.lr, to a list.
void require_variations(std::span<const AnySection> known, const std::vector<std::string>& variations);

/// Throws ConfigError if two entries of the list `key` are equal, as results are found by them.
void require_different(std::string_view key, std::vector<std::string> entries);

inline constexpr std::array all_dtypes{DType::f64, DType::f32, DType::bf16, DType::f16};
/// Parses a --dtype word. Throws ConfigError for an unknown one.
DType parse_dtype(const std::string& word);
/// Looks up a number format by name. Throws ConfigError, which names the flag, listing the known names.
NumberFormat parse_format(const std::string& word, std::string_view flag = "--format");

/// Returns every key of model, init and input with its value, `placement` as a name or a table. For the hash a text's
/// content replaces its path, which requires read_texts.
Json resolved_json(const StackSpec& spec, bool for_hash = false);

/// Returns the stack's name in results and tables: its label, else its placement's name, else its free form as JSON.
std::string placement_label(const StackSpec& spec);
/// Returns the stack's name in progress lines: as placement_label, but "custom" for a free form without a name.
std::string short_label(const StackSpec& spec);

}  // namespace periscope::config
