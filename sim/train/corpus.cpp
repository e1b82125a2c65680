#include "sim/train/corpus.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/files/files_below.h"
#include "sim/files/mapped_file.h"
#include "sim/random/philox.h"
#include "sim/train/synthetic_language.h"
#include "sim/train/train_spec.h"

namespace periscope {
namespace {

constexpr std::size_t synthetic_length = std::size_t{1} << 22U;

[[noreturn]] void reject(const std::string& path, const std::string& reason) {
  throw InputError(fmt::format("train.corpus = {}: {}", path, reason));
}

/// Returns the files of a corpus in the order of reading.
std::vector<std::string> files_of(const std::string& path) {
  std::error_code error;
  std::vector<std::string> files = files_below(path, error);
  if (error) reject(path, error.message());
  if (files.empty()) reject(path, "expected files, found an empty folder");
  return files;
}

MappedFile open_file(const std::string& corpus, const std::string& path) {
  try {
    return MappedFile(path);
  } catch (const InputError& error) {
    reject(corpus, error.what());
  }
}

/// Throws InputError if a token is not below `vocab`. `file` names a file in the corpus folder, or is "".
void require_below(int vocab, std::span<const std::uint8_t> tokens, const std::string& corpus,
                   const std::string& file) {
  const auto wrong = std::ranges::find_if(tokens, [&](std::uint8_t token) { return token >= vocab; });
  if (wrong == tokens.end()) return;
  reject(corpus, fmt::format("{}byte {} at offset {}: expected tokens below model.vocab = {}",
                             file.empty() ? "" : file + ": ", *wrong, wrong - tokens.begin(), vocab));
}

void append_file(const std::string& corpus, const std::string& path, int vocab, std::vector<std::uint8_t>& tokens) {
  const MappedFile file = open_file(corpus, path);
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() > Corpus::max_bytes - tokens.size()) {
    reject(corpus, fmt::format("expected at most {} bytes, found {} in the files up to {}", Corpus::max_bytes,
                               tokens.size() + bytes.size(), path));
  }
  const auto at = tokens.size();
  tokens.resize(at + bytes.size());
  constexpr std::size_t piece = std::size_t{1} << 24U;
  for (std::size_t first = 0; first < bytes.size(); first += piece) {
    file.check_unchanged();
    const std::span<const std::byte> part = bytes.subspan(first, std::min(piece, bytes.size() - first));
    std::ranges::transform(part, tokens.begin() + static_cast<std::ptrdiff_t>(at + first),
                           [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
  }
  file.check_unchanged();
  require_below(vocab, std::span(tokens).subspan(at), corpus, path == corpus ? "" : path);
}

Windows windows_at(std::span<const std::uint8_t> tokens, int length, std::span<const int> offsets) {
  Windows windows{.tokens = {}, .length = length};
  windows.tokens.reserve(offsets.size() * static_cast<std::size_t>(length));
  for (const int offset : offsets) {
    const auto window = tokens.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(length));
    windows.tokens.insert(windows.tokens.end(), window.begin(), window.end());
  }
  return windows;
}

std::vector<int> parts(const Windows& windows, int first, int count, int skipped) {
  std::vector<int> all;
  all.reserve(static_cast<std::size_t>(count) * static_cast<std::size_t>(windows.length - 1));
  for (int w = first; w < first + count; ++w) {
    const auto begin = windows.tokens.begin() + static_cast<std::ptrdiff_t>(w) * windows.length + skipped;
    all.insert(all.end(), begin, begin + windows.length - 1);
  }
  return all;
}

}  // namespace

Corpus::Corpus(const std::string& path, double validation, int window, int vocab) {
  synthetic_ = path == synthetic_corpus;
  if (synthetic_) {
    tokens_ = SyntheticLanguage().text(synthetic_length);
    require_below(vocab, tokens_, path, "");
  } else {
    for (const std::string& file : files_of(path)) append_file(path, file, vocab, tokens_);
  }
  const auto held_out = static_cast<std::size_t>(validation * static_cast<double>(tokens_.size()));
  training_ = tokens_.size() - held_out;
  const auto needed = static_cast<std::size_t>(window);
  if (training_ < needed || held_out < needed) {
    reject(path, fmt::format(
                     "expected at least input.tokens + 1 = {} bytes each for training and validation, found {} and {}",
                     window, training_, held_out));
  }
}

std::optional<double> Corpus::loss_floor(int labels) const {
  if (!synthetic_) return std::nullopt;
  return SyntheticLanguage().loss_floor(labels);
}

std::vector<int> Windows::inputs(int first, int count) const { return parts(*this, first, count, 0); }

std::vector<int> Windows::labels(int first, int count) const { return parts(*this, first, count, 1); }

Windows training_batch(const Corpus& corpus, int length, int batch, std::uint64_t seed, int step) {
  std::vector<int> offsets(static_cast<std::size_t>(batch));
  fill_uniform_int({seed, static_cast<std::uint32_t>(step), Stream::batches},
                   static_cast<int>(corpus.training().size()) - length + 1, offsets);
  return windows_at(corpus.training(), length, offsets);
}

Windows held_out(const Corpus& corpus, int length, int count) {
  std::vector<int> offsets;
  const auto last = static_cast<double>(corpus.validation().size() - static_cast<std::size_t>(length));
  for (int i = 0; i < count; ++i) {
    offsets.push_back(static_cast<int>(count > 1 ? last * i / (count - 1) : 0.0));
  }
  return windows_at(corpus.validation(), length, offsets);
}

}  // namespace periscope
