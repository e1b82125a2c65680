#include "experiments/command/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "experiments/results/sha256.h"
#include "sim/spec/error.h"

namespace periscope {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  throw Error(ExitCode::runtime_failure, fmt::format("{} {}: {}", what, path, std::strerror(errno)));
}

std::string checksum(const std::string& payload) { return sha256_hex(payload).substr(0, 16); }

/// The payload of a line, or nothing if the line is not whole.
std::optional<Json> record_of(const std::string& line) {
  const std::size_t first = line.find(' ');
  const std::size_t second = first == std::string::npos ? first : line.find(' ', first + 1);
  if (second == std::string::npos) return std::nullopt;
  const std::string payload = line.substr(second + 1);
  if (line.substr(0, first) != checksum(payload)) return std::nullopt;
  if (line.substr(first + 1, second - first - 1) != fmt::format("{}", payload.size())) return std::nullopt;
  Json json = Json::parse(payload, nullptr, false);
  if (json.is_discarded()) return std::nullopt;
  return json;
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

/// Makes a new file's name survive a crash, too.
void sync_folder(const std::filesystem::path& folder) {
  const int handle = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return;
  ::fsync(handle);
  ::close(handle);
}

}  // namespace

Journal::Journal(std::string path, const Json& header) : path_(std::move(path)) {
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  std::error_code ignored;
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0) fail(path_, "cannot write");
  try {
    if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
      throw ConfigError(fmt::format("{}: another process is writing this journal; expected one at a time", path_));
    }
    const std::string text = whole_file(file_, path_);
    const std::size_t whole = read_whole(text);
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

std::size_t Journal::read_whole(const std::string& text) {
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) return begin;  // a line without its end
    const std::optional<Json> record = record_of(text.substr(begin, end - begin));
    if (!record) {
      if (end + 1 == text.size()) return begin;
      throw InputError(fmt::format("{}: record {} is damaged, and not the last one", path_, records_.size() + 1));
    }
    records_.push_back(*record);
    begin = end + 1;
  }
  return begin;
}

void Journal::append(const Json& record) {
  write(record, true);
  records_.push_back(record);
}

void Journal::note(const Json& record) {
  write(record, std::chrono::steady_clock::now() - synced_ > std::chrono::seconds(1));
}

void Journal::write(const Json& record, bool sync) {
  const std::string payload = record.dump();
  const std::string line = fmt::format("{} {} {}\n", checksum(payload), payload.size(), payload);
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = ::write(file_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path_, "cannot write");
    done += static_cast<std::size_t>(n);
  }
  if (!sync) return;
  if (::fsync(file_) != 0) fail(path_, "cannot write");
  synced_ = std::chrono::steady_clock::now();
}

}  // namespace periscope
