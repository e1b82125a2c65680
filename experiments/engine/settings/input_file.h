#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

namespace periscope::config {

/// A file of text or token ids, as it was when a run first asked for it.
struct InputFile {
  static constexpr std::size_t most = 64U << 20U;
  std::string head;    ///< the first bytes, `most` of them or all
  std::uint64_t size;  ///< of the whole file
  std::string sha256;  ///< of the whole file, in hex
};

/// Reads a file once: whoever asks again gets the same bytes and the same hash, though the file be replaced meanwhile.
/// So a long run reads one text for all its seeds, and its provenance names the text that it read. Several threads may
/// ask. Throws InputError, which begins with `name` if there is one, for what is no regular file or changes while it
/// is read.
std::shared_ptr<const InputFile> input_file(const std::string& path, const std::string& name = {});

/// A run of a process that makes several, on the thread that makes this. While one lives, files that were read are
/// kept; the first one after that reads them anew. Where a run asks, on this thread, for a file that another run, which
/// still lives, has read, and that has changed since, input_file throws InputError: it would get the old text.
class RunOfInputFiles {
 public:
  RunOfInputFiles();
  RunOfInputFiles(const RunOfInputFiles&) = delete;
  RunOfInputFiles& operator=(const RunOfInputFiles&) = delete;
  ~RunOfInputFiles();

  /// True at the first call for a path.
  bool asks_first(const std::string& path) { return asked_.insert(path).second; }

 private:
  std::set<std::string> asked_;
};

}  // namespace periscope::config
