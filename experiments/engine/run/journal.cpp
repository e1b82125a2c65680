#include "experiments/engine/run/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

#include "experiments/engine/settings/sha256.h"
#include "sim/base/error.h"
#include "sim/files/destination.h"
#include "sim/files/output_file.h"

namespace periscope::stacks {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  throw Error(ExitCode::runtime_failure, fmt::format("{} {}: {}", what, path, std::strerror(errno)));
}

std::string checksum(const std::string& payload) { return config::sha256_hex(payload).substr(0, 16); }

/// A record's line, with its end.
std::string line_of(const Json& record) {
  const std::string payload = record.dump();
  return fmt::format("{} {} {}\n", checksum(payload), payload.size(), payload);
}

/// Nothing for text that is not JSON or is nested deeper than any record: copying it would take the stack.
std::optional<Json> parsed(const std::string& payload) {
  constexpr int deepest = 16;
  bool too_deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > deepest;
    return !too_deep;
  };
  Json json = Json::parse(payload, watch, false);
  if (too_deep || json.is_discarded()) return std::nullopt;
  return json;
}

/// The payload of a line, or nothing if the line is not whole.
std::optional<Json> record_of(const std::string& line) {
  const std::size_t first = line.find(' ');
  const std::size_t second = first == std::string::npos ? first : line.find(' ', first + 1);
  if (second == std::string::npos) return std::nullopt;
  const std::string payload = line.substr(second + 1);
  if (line.substr(0, first) != checksum(payload)) return std::nullopt;
  if (line.substr(first + 1, second - first - 1) != fmt::format("{}", payload.size())) return std::nullopt;
  return parsed(payload);
}

/// Returns true if `text`, which has no line break, may be the beginning of a record's line: its checksum, length and
/// payload as far as they go. Zeros at its end are ignored: a machine that lost its power may have left them.
bool begins_record(std::string_view text) {
  text = text.substr(0, text.find_last_not_of('\0') + 1);
  constexpr std::string_view hex = "0123456789abcdef";
  constexpr std::size_t checksum_digits = 16;
  constexpr std::size_t length_digits = 19;
  const std::string_view sum = text.substr(0, checksum_digits);
  if (sum.find_first_not_of(hex) != std::string_view::npos) return false;
  if (text.size() <= checksum_digits) return true;
  if (text[checksum_digits] != ' ') return false;
  text.remove_prefix(checksum_digits + 1);
  const std::string_view length = text.substr(0, text.find(' '));
  if (length.size() > length_digits || length.find_first_not_of(hex.substr(0, 10)) != std::string_view::npos)
    return false;
  if (length.size() == text.size()) return true;
  const std::string_view payload = text.substr(length.size() + 1);
  return !length.empty() && payload.size() <= std::stoull(std::string(length)) &&
         (payload.empty() || payload.front() == '{');
}

/// Reading anything else could wait for ever.
void require_regular_file(int file, const std::string& path) {
  struct stat status {};
  if (::fstat(file, &status) != 0) fail(path, "cannot look at");
  if (!S_ISREG(status.st_mode)) throw InputError(fmt::format("{}: expected a journal, this is no regular file", path));
}

std::string whole_file(int file, const std::string& path) {
  std::string text;
  std::array<char, 65536> part{};
  while (true) {
    const ssize_t n = ::read(file, part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "cannot read");
    if (n == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(n));
  }
}

/// Opens the file for this process alone.
int locked_file(const std::string& path) {
  while (true) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);
    if (file < 0) fail(path, "cannot write");
    try {
      require_regular_file(file, path);
      if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
        throw ConfigError(fmt::format("{}: another process is writing this journal; expected one at a time", path));
      }
      // Another process may have finished, and removed what this one had opened.
      if (leads_to(path, file)) return file;
    } catch (...) {
      ::close(file);
      throw;
    }
    ::close(file);
  }
}

}  // namespace

Journal::Journal(std::string path, const Json& header) : path_(std::move(path)) {
  const std::string folder = folder_of(path_);
  create_folders(folder, path_);
  file_ = locked_file(path_);
  try {
    const std::string text = whole_file(file_, path_);
    const std::size_t whole = read_whole(text, header);
    if (whole < text.size() && ::ftruncate(file_, static_cast<off_t>(whole)) != 0) fail(path_, "cannot shorten");
    if (records_.empty()) {
      write(header, true);
      sync_folder(folder);
      return;
    }
    if (records_.front() != header) {
      throw ConfigError(
          fmt::format("{}: a journal of another run; expected the same configuration, or another --out", path_));
    }
    records_.erase(records_.begin());
  } catch (...) {
    ::close(file_);
    throw;
  }
}

Journal::~Journal() { ::close(file_); }

std::size_t Journal::read_whole(const std::string& text, const Json& first) {
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) {
      const std::string_view rest = std::string_view(text).substr(begin);
      const bool ours = records_.empty() ? line_of(first).starts_with(rest) : begins_record(rest);
      if (ours) return begin;
    }
    std::optional<Json> record = record_of(text.substr(begin, end - begin));
    if (end == std::string::npos || !record) {
      if (records_.empty()) {
        throw InputError(fmt::format("{}: no journal: its first line is no header; move the file away", path_));
      }
      throw InputError(
          fmt::format("{}: record {} is damaged: delete its line and those after it to go on from what is before",
                      path_, records_.size() + 1));
    }
    records_.push_back(std::move(*record));
    begin = end + 1;
  }
  return begin;
}

JournalPart Journal::part(std::size_t i) const {
  return {records_.at(i), fmt::format("{}: record {}", path_, i + 2)};  // the header is the first one
}

void Journal::append(const Json& record) {
  write(record, true);
  records_.push_back(record);
}

void Journal::note(const Json& record) {
  write(record, std::chrono::steady_clock::now() - synced_ > std::chrono::seconds(1));
}

void Journal::write(const Json& record, bool sync) {
  if (const int error = write_all(file_, line_of(record)); error != 0) throw cannot_write(path_, error);
  if (!sync) return;
  if (::fsync(file_) != 0) throw cannot_write(path_, errno);
  synced_ = std::chrono::steady_clock::now();
}

}  // namespace periscope::stacks
