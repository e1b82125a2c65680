#include "experiments/engine/run/token_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "experiments/engine/settings/config.h"
#include "sim/base/parse_integer.h"
#include "sim/checkpoint/file_error.h"
#include "sim/checkpoint/llama2c_tokenizer.h"
#include "sim/core/backend.h"
#include "sim/files/mapped_file.h"

namespace periscope::stacks {
namespace {

namespace fs = std::filesystem;

/// Returns true if the path exists, even if it is not readable.
bool path_exists(const fs::path& path) {
  std::error_code unreadable;
  return fs::status(path, unreadable).type() != fs::file_type::not_found;
}

/// Reads a file of ids or text. Encoding needs much memory, so files above read_text_file's limit throw InputError.
std::string contents(const std::string& path) {
  TextFile file = config::read_text_file(path);
  if (file.size > file.head.size()) {
    throw InputError(fmt::format("{}: expected at most {} bytes, found {}", path, file.head.size(), file.size));
  }
  return std::move(file.head);
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view spaces = " \t\r\n";
  const std::size_t first = std::min(text.find_first_not_of(spaces), text.size());
  return text.substr(first, text.find_last_not_of(spaces) + 1 - first);
}

/// Reads ids in [least, vocab) from a flag's value, or from the file that it names. They are separated by white space
/// or commas, optionally in brackets (a JSON list) and with a trailing comma. Requires `count` ids unless `count` is 0.
std::vector<int> read_ids(const std::string& flag, const std::string& value, int least, int vocab, std::size_t count) {
  constexpr std::string_view separators = " \t\r\n,";
  const bool in_file = value.find_first_not_of("0123456789-+[]" + std::string(separators)) != std::string::npos;
  if (in_file && !path_exists(value)) {
    throw ConfigError(fmt::format("{} {}: expected ids such as 5,9,2, or an existing file", flag, value));
  }
  const auto fail = [&](const std::string& problem) {
    if (in_file) throw InputError(fmt::format("{}: {}", value, problem));
    throw ConfigError(fmt::format("{}: {}", flag, problem));
  };
  const std::string all = in_file ? contents(value) : value;
  std::string_view text = trimmed(all);
  if (text.starts_with('[')) {
    if (!text.ends_with(']')) fail("expected ] at the end of a list that begins with [");
    text = trimmed(text.substr(1, text.size() - 2));
  }
  std::vector<int> ids;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find_first_of(separators));
    const auto id = parse_integer(word, least, vocab - 1);
    if (!id) {
      fail(fmt::format("entry {} = {}: expected {} (the model's vocabulary)", ids.size(), in_quotes(word),
                       integer_range_text(least, vocab - 1)));
    }
    ids.push_back(static_cast<int>(*id));
    text = trimmed(text.substr(word.size()));
    if (text.starts_with(',')) text = trimmed(text.substr(1));
  }
  if (ids.empty()) fail("expected token ids, found none");
  if (count > 0 && ids.size() != count) {
    fail(fmt::format("expected one label per token (-1 for none), {} in total, found {}", count, ids.size()));
  }
  return ids;
}

constexpr const char* tokenizer_remedy =
    "unsupported tokenizer: for a tokenizer.json use `python -m periscope run probe DIR --text FILE`; for others "
    "encode the text with another tool and pass --tokens";

/// Returns a file in `folder` that identifies an unsupported tokenizer, or "".
std::string other_tokenizer(const std::string& folder) {
  constexpr std::array names{"tokenizer.json", "tokenizer.model", "vocab.json",
                             "vocab.txt",      "merges.txt",      "spiece.model"};
  for (const char* name : names) {
    if (path_exists(fs::path(folder) / name)) return (fs::path(folder) / name).string();
  }
  return {};
}

/// Sets the tokenizer and its name. If none is chosen or found, the tokenizer is null and its name "none".
void find_tokenizer(TokenInput& input, const std::string& choice, int vocab, const std::string& folder) {
  std::vector<std::string> files;
  if (choice == "bytes") {
    if (vocab < 256) {
      throw ConfigError(
          fmt::format("--tokenizer bytes: expected a model with a vocabulary of at least 256 ids, found {}", vocab));
    }
  } else if (!choice.empty()) {
    files.push_back(choice);
  } else {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      const std::string file = entry->path().filename().string();
      if (file.starts_with("tok") && file.ends_with(".bin")) files.push_back(entry->path().string());
    }
  }
  std::ranges::sort(files);
  if (files.size() > 1) {
    throw ConfigError(
        fmt::format("found several tokenizers, {} and {}: choose one with --tokenizer", files[0], files[1]));
  }
  if (files.size() == 1) {
    const std::string& name = input.tokenizer_name = files.front();
    if (name.ends_with(".json") || name.ends_with(".model") || name.ends_with(".txt")) {
      throw unsupported(name, tokenizer_remedy);
    }
    input.tokenizer = std::make_unique<Llama2cTokenizer>(MappedFile(name).bytes(), name, vocab);
  } else if (choice == "bytes" || (vocab == 256 && other_tokenizer(folder).empty())) {
    input.tokenizer_name = "bytes";
    input.tokenizer = std::make_unique<ByteTokenizer>();
  }
}

std::vector<int> text_ids(const std::string& path, const Tokenizer* tokenizer, int vocab, const std::string& folder) {
  if (tokenizer == nullptr) {
    const std::string other = other_tokenizer(folder);
    if (!other.empty()) throw unsupported(other, tokenizer_remedy);
    throw ConfigError(
        fmt::format("--text {}: expected a llama2.c tokenizer (tok*.bin) in {}, or a vocabulary of 256 ids (bytes), "
                    "found {} ids; pass --tokenizer, or encode the text with another tool and pass --tokens",
                    path, folder, vocab));
  }
  if (!path_exists(path)) throw ConfigError(fmt::format("--text {}: no such file", path));
  const std::string text = contents(path);
  if (text.empty()) throw InputError(fmt::format("{}: expected text, found an empty file", path));
  return tokenizer->encode(text);
}

void check_length(std::size_t count, const ModelSpec& model, bool chosen) {
  const int positions = model.max_tokens();
  if (positions > 0 && count > static_cast<std::size_t>(positions)) {
    throw ConfigError(fmt::format(
        "{0} tokens: expected at most {1}, the longest input of the model; pass --max-tokens {1} to truncate", count,
        positions));
  }
  if (!chosen && count > static_cast<std::size_t>(most_tokens)) {
    throw ConfigError(
        fmt::format("{} tokens: expected at most {}; pass --max-tokens to read more", count, most_tokens));
  }
}

}  // namespace

bool TokenInput::has_labels() const {
  return std::ranges::any_of(labels, [](int label) { return label != no_label; });
}

TokenInput read_token_input(const TokenSource& source, const ModelSpec& model, const std::string& folder) {
  if (source.tokens.empty() == source.text.empty()) {
    throw ConfigError("expected either --tokens or --text as input of the model");
  }
  TokenInput input;
  find_tokenizer(input, source.tokenizer, model.vocab, folder);
  input.ids = source.text.empty() ? read_ids("--tokens", source.tokens, 0, model.vocab, 0)
                                  : text_ids(source.text, input.tokenizer.get(), model.vocab, folder);
  const std::size_t read = input.ids.size();
  if (!source.labels.empty()) {
    input.labels = read_ids("--labels", source.labels, no_label, model.vocab, read);
  } else {
    input.labels.assign(read, no_label);
    if (model.causal) std::copy(input.ids.begin() + 1, input.ids.end(), input.labels.begin());
  }
  if (source.max_tokens && read > static_cast<std::size_t>(*source.max_tokens)) {
    input.ids.resize(static_cast<std::size_t>(*source.max_tokens));
    input.labels.resize(input.ids.size());
    if (source.labels.empty()) input.labels.back() = no_label;
    input.notes.push_back(
        fmt::format("only the first {} of {} tokens are used (--max-tokens)", input.ids.size(), read));
  }
  check_length(input.ids.size(), model, source.max_tokens.has_value());
  if (!model.unembedding) {
    std::ranges::fill(input.labels, no_label);
    input.notes.emplace_back("no loss: the model has no head");
  } else if (!input.has_labels()) {
    input.notes.emplace_back(!source.labels.empty() ? "no loss: all labels are -1"
                             : model.causal         ? "no loss: a single token has no next token"
                                                    : "no loss: a bidirectional model needs --labels");
  }
  return input;
}

std::string escaped(const std::string& text) {
  const std::string quoted = in_quotes(text);
  return quoted.substr(1, quoted.rfind('"') - 1);
}

}  // namespace periscope::stacks
