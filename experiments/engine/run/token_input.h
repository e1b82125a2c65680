#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/checkpoint/tokenizer.h"
#include "sim/spec/model_spec.h"

namespace periscope::stacks {

/// Largest number of tokens without --max-tokens: the work of attention grows with its square.
constexpr int most_tokens = 1 << 14;

/// The source of token ids, as the flags give it.
struct TokenSource {
  std::string tokens = {};  ///< --tokens: "5,9,2", or a file of ids (JSON list, or separated by space, ","); "": none
  std::string text = {};    ///< --text: a file; "": none
  std::string labels = {};  ///< --labels: like tokens; −1 for no label; "": the next tokens
  std::string tokenizer = {};          ///< --tokenizer: a file of llama2.c, or "bytes"; "": the folder's
  std::optional<int> max_tokens = {};  ///< --max-tokens: only the first N tokens
};

/// A model's token ids and labels.
struct TokenInput {
  std::vector<int> ids;
  std::vector<int> labels;               ///< one per id; no_label for none
  std::unique_ptr<Tokenizer> tokenizer;  ///< null if ids have no text
  std::string tokenizer_name = "none";   ///< a path, "bytes", or "none"
  std::vector<std::string> notes;        ///< for the user

  [[nodiscard]] bool has_labels() const;
};

/// Reads ids and labels for a model whose checkpoint lies in `folder`. The tokenizer is the given one, else
/// the tok*.bin file there, else bytes for a vocabulary of 256. Without --labels, the labels of a causal model are the
/// next tokens (the last token has none); other models have none. Throws ConfigError for wrong flags, and InputError
/// for wrong files.
[[nodiscard]] TokenInput read_token_input(const TokenSource& source, const ModelSpec& model, const std::string& folder);

/// Returns a piece of text in printable ASCII, other bytes escaped as \xNN.
[[nodiscard]] std::string visible(const std::string& text);

}  // namespace periscope::stacks
