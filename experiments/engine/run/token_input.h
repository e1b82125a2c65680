#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/checkpoint/tokenizer.h"
#include "sim/spec/model_spec.h"

namespace periscope::stacks {

/// Largest number of tokens without --max-tokens, as the cost of attention grows with its square.
constexpr int most_tokens = 1 << 14;

/// Flags that specify a model's input.
struct TokenSource {
  std::string tokens = {};             ///< --tokens: "5,9,2", or a file with such a list or a JSON list; "": none
  std::string text = {};               ///< --text: path of a text file; "": none
  std::string labels = {};             ///< --labels: like tokens, with −1 for no label; "": the next tokens
  std::string tokenizer = {};          ///< --tokenizer: a file of llama2.c, or "bytes"; "": see read_token_input
  std::optional<int> max_tokens = {};  ///< --max-tokens: truncates the input
};

/// Token ids and labels of a model's input.
struct TokenInput {
  std::vector<int> ids;
  std::vector<int> labels;               ///< one per id; no_label for an id without a label
  std::unique_ptr<Tokenizer> tokenizer;  ///< null if no tokenizer was chosen or found
  std::string tokenizer_name = "none";   ///< path, "bytes" or "none"
  std::vector<std::string> notes;        ///< notes for the report

  [[nodiscard]] bool has_labels() const;
};

/// Reads ids and labels for a model with its checkpoint in `folder`. The default tokenizer is the tok*.bin file there,
/// else bytes for a vocabulary of 256. Without --labels, a causal model has the next tokens as labels (no_label for the
/// last token); other models have no labels. Throws ConfigError for invalid flags, and InputError for invalid files.
[[nodiscard]] TokenInput read_token_input(const TokenSource& source, const ModelSpec& model, const std::string& folder);

/// Returns text as printable ASCII, with other bytes escaped as \xNN.
[[nodiscard]] std::string escaped(const std::string& text);

}  // namespace periscope::stacks
