#pragma once

#include <optional>
#include <string>

#include "experiments/engine/training/task.h"

namespace periscope {
class SafetensorsFile;
}

namespace periscope::training {

/// A safetensors file with parameters, optimizer moments and history, from which a run resumes bit for bit. It is
/// replaced atomically, so a crash leaves a valid state. `identity` is a hash of the run's dependencies; a file with
/// a different identity is rejected.
class StateFile {
 public:
  StateFile(std::string path, std::string identity) : path_(std::move(path)), identity_(std::move(identity)) {}

  struct Content {
    TrainingState state;
    TrainingHistory history;
  };
  /// Returns nullopt if the file does not exist. The file may omit the parameters; `like` provides their shapes.
  /// Throws InputError if the file is damaged or belongs to another run.
  [[nodiscard]] std::optional<Content> read(const Backend& ops, const TrainingState& like) const;
  /// Throws Error (run-time failure) and leaves the existing file unchanged if writing fails.
  void write(const Backend& ops, const TrainingState& state, const TrainingHistory& history) const;

 private:
  [[nodiscard]] Content content_of(const SafetensorsFile& file, const Backend& ops, const TrainingState& like) const;

  std::string path_;
  std::string identity_;
};

}  // namespace periscope::training
