#pragma once

#include <optional>
#include <string>

#include "experiments/engine/training/cell.h"

namespace periscope {
class SafetensorsFile;
}

namespace periscope::training {

/// The file with the state from which a run goes on, exact to the last bit: a safetensors file with the parameters, the
/// optimizer's memory and the history. It is replaced as a whole, so that a process that dies leaves the state before
/// or the one after. `identity` says what the run depends on; a file with another identity is refused.
class StateFile {
 public:
  StateFile(std::string path, std::string identity) : path_(std::move(path)), identity_(std::move(identity)) {}

  struct Content {
    TrainingState state;
    CellHistory history;
  };
  /// `like` has the parameters of the stack, to tell their shapes; a state that was written without parameters comes
  /// back without. Nothing if there is no file. Throws InputError for a file that is damaged, or of another run.
  [[nodiscard]] std::optional<Content> read(const Backend& ops, const TrainingState& like) const;
  /// Throws Error (run-time failure), and leaves the file as it was, where the system refuses.
  void write(const Backend& ops, const TrainingState& state, const CellHistory& history) const;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  [[nodiscard]] Content content_of(const SafetensorsFile& file, const Backend& ops, const TrainingState& like) const;

  std::string path_;
  std::string identity_;
};

}  // namespace periscope::training
