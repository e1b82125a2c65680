#pragma once

#include <optional>
#include <string>

#include "experiments/engine/training/task.h"

namespace periscope {
class SafetensorsFile;
}

namespace periscope::training {

/// The state from which a run resumes with the same bits: a safetensors file with the parameters, the optimizer's
/// moments and the history. It is replaced as a whole, so that a process that dies leaves the state before or the one
/// after. `identity` says what the run depends on; a file with another identity is rejected.
class StateFile {
 public:
  StateFile(std::string path, std::string identity) : path_(std::move(path)), identity_(std::move(identity)) {}

  struct Content {
    TrainingState state;
    TrainingHistory history;
  };
  /// Returns nothing if there is no file. `like` has the shapes of the stack's parameters; a state that was written
  /// without parameters is read without. Throws InputError for a file that is damaged, or of another run.
  [[nodiscard]] std::optional<Content> read(const Backend& ops, const TrainingState& like) const;
  /// Throws Error (run-time failure), and leaves the file unchanged, if the system reports a failure.
  void write(const Backend& ops, const TrainingState& state, const TrainingHistory& history) const;

 private:
  [[nodiscard]] Content content_of(const SafetensorsFile& file, const Backend& ops, const TrainingState& like) const;

  std::string path_;
  std::string identity_;
};

}  // namespace periscope::training
