#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/checkpoint/tokenizer.h"
#include "sim/spec/model_spec.h"

namespace periscope::stacks {

/// More tokens than this are read only if they are asked for by number: attention's work grows with their square.
constexpr int most_tokens = 1 << 14;

/// The source of token ids, as the flags give it.
struct TokenSource {
  std::string tokens = {};  ///< --tokens: "5,9,2", or a file of ids (JSON list, or separated by space, ","); "": none
  std::string text = {};    ///< --text: a file; "": none
  std::string labels = {};  ///< --labels: like tokens; −1 for no label; "": the next tokens
  std::string tokenizer = {};          ///< --tokenizer: a file of llama2.c, or "bytes"; "": the folder's
  std::optional<int> max_tokens = {};  ///< --max-tokens: only the first so many
};

/// The token ids that a model reads, and the labels that it is to predict.
struct TokenInput {
  std::vector<int> ids;
  std::vector<int> labels;               ///< one per id; no_label for none
  std::unique_ptr<Tokenizer> tokenizer;  ///< null if ids have no text
  std::string tokenizer_name = "none";   ///< a path, "bytes", or "none"
  std::vector<std::string> notes;        ///< what the user should know

  [[nodiscard]] bool has_labels() const;
};

/// Reads ids and labels for a model whose checkpoint lies in `folder`. Its tokenizer is the one that was asked for, or
/// the one tok*.bin file there, or bytes for a vocabulary of 256. Without --labels, a causal model is to predict the
/// next token (the last one has no label) and another model nothing. Throws ConfigError for wrong flags, and InputError
/// for wrong files.
[[nodiscard]] TokenInput read_token_input(const TokenSource& source, const ModelSpec& model, const std::string& folder);

/// Printable ASCII of a piece of text, all else escaped as \xNN.
[[nodiscard]] std::string visible(const std::string& text);

}  // namespace periscope::stacks
