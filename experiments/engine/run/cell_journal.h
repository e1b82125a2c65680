#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/engine/run/journal.h"
#include "experiments/engine/run/journal_part.h"
#include "experiments/engine/settings/resolved.h"
#include "sim/files/temporary_files.h"

namespace periscope::stacks {

/// The finished cells of a run, each under a key that says all that it depends on: a run that was stopped, or killed,
/// reads them when the same command is given again, and goes on to the same result. The file is
/// FOLDER/NAME-<hash>.journal; the hash is that of the configuration and of the program, so that nothing is ever read
/// that another run or another program has written. A cell is read strictly all the same: the file may come from
/// anywhere.
class CellJournal {
 public:
  /// `resumable` is asked for a token (Progress::resumable), with a note, when the first cell is finished. Throws
  /// InputError for a record that is no cell.
  using Resumable = std::function<std::shared_ptr<const void>(const std::string& note)>;
  CellJournal(const std::string& folder, const std::string& name, const config::Resolved& resolved,
              Resumable resumable = {});
  /// Removes a file without cells.
  ~CellJournal();
  CellJournal(const CellJournal&) = delete;
  CellJournal& operator=(const CellJournal&) = delete;

  /// The cell, if it was finished before this journal was opened. Several threads may ask while one tells.
  [[nodiscard]] std::optional<JournalPart> find(const std::string& key) const;
  /// Keeps a finished cell.
  void keep(const std::string& key, const nlohmann::ordered_json& cell);
  [[nodiscard]] const std::string& path() const { return journal_.path(); }
  /// True if there is a finished cell.
  [[nodiscard]] bool has_kept() const { return has_kept_; }
  /// Returns one line for every journal and every folder of states of NAME in the folder that belongs to another run:
  /// these files stay until somebody repeats that run or deletes them. Empty if there are none.
  [[nodiscard]] std::string others() const;
  /// The result is written: the journal's file is removed.
  void remove() const;

 private:
  CellJournal(const std::string& folder, const nlohmann::ordered_json& header, Resumable resumable);
  void has_cells();

  Journal journal_;
  std::map<std::string, std::size_t> cells_;  ///< as found: their places among the journal's records
  Resumable resumable_;
  bool has_kept_ = false;
  std::shared_ptr<const void> token_;           ///< nothing while there are no cells
  std::optional<RemovedAtExit> without_cells_;  ///< so that a process which ends then leaves no file
};

/// Numbers to their last bit, NaN and infinities too, as text: 16 lower-case hex digits each.
std::string bits_of(std::span<const double> values);
/// Throws std::invalid_argument for other digits, and for a number of digits that 16 does not divide.
std::vector<double> values_of(const std::string& bits);

}  // namespace periscope::stacks
