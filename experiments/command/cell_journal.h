#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/command/journal.h"
#include "experiments/command/stop_signals.h"
#include "experiments/results/provenance.h"

namespace periscope {

/// The finished cells of a run, each under a key that says all that it depends on: a run that was stopped, or killed,
/// reads them when the same command is given again, and goes on to the same result. The file is
/// FOLDER/NAME-<hash>.journal; the hash is that of the configuration and of the program, so that nothing is ever read
/// that another run or another program has written.
class CellJournal {
 public:
  /// From the first finished cell on a stopped process is one that can be gone on from (Resumable), and says so unless
  /// `quiet`.
  CellJournal(const std::string& folder, const std::string& name, const Resolved& resolved, bool quiet = true);
  /// Removes a file without cells.
  ~CellJournal();
  CellJournal(const CellJournal&) = delete;
  CellJournal& operator=(const CellJournal&) = delete;

  /// The cell, if it was finished before this journal was opened. Several threads may ask while one tells.
  [[nodiscard]] const nlohmann::ordered_json* find(const std::string& key) const;
  /// Keeps a finished cell.
  void keep(const std::string& key, const nlohmann::ordered_json& cell);
  [[nodiscard]] const std::string& path() const { return journal_.path(); }
  /// True if there is a finished cell.
  [[nodiscard]] bool has_kept() const { return resumable_.has_value(); }
  /// The result is written: the journal's file is removed.
  void remove() const;

 private:
  CellJournal(const std::string& folder, const nlohmann::ordered_json& header, bool quiet);
  void has_cells();

  Journal journal_;
  std::map<std::string, nlohmann::ordered_json> cells_;  ///< as found
  bool quiet_;
  std::optional<Resumable> resumable_;  ///< nothing while there are no cells
};

/// Numbers to their last bit, NaN and infinities too, as text.
std::string bits_of(std::span<const double> values);
std::vector<double> values_of(const std::string& bits);

}  // namespace periscope
