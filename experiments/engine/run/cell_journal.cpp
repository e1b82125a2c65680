#include "experiments/engine/run/cell_journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <filesystem>
#include <stdexcept>
#include <string_view>

#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/sha256.h"
#include "sim/base/printable.h"

namespace periscope::stacks {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t digits = 16;

Json header_of(const std::string& name, const config::Resolved& resolved) {
  return {{"journal", name},
          {"config_sha256", config::sha256_hex(config::json_text(resolved.hashed))},
          {"program_sha256", config::program_sha256()}};
}

constexpr std::size_t hash_digits = 12;
constexpr std::string_view ending = ".journal";

std::string path_of(const std::string& folder, const Json& header) {
  return fmt::format("{}/{}-{}{}", folder, std::string(header["journal"]),
                     config::sha256_hex(header.dump()).substr(0, hash_digits), ending);
}

/// The journals, and folders of states, that beside `own` have its name but for the hash: they hold what another
/// configuration, another build of the program or another instruction set had done when it was stopped.
std::vector<std::string> beside(const std::string& own) {
  const std::filesystem::path path(own);
  const std::string name = path.filename().string();
  const std::string_view stem = std::string_view(name).substr(0, name.size() - ending.size());
  const std::string_view beginning = stem.substr(0, stem.size() - hash_digits);
  std::vector<std::string> others;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string other = entry->path().stem().string();
    const std::string extension = entry->path().extension().string();
    if (extension != ending && extension != ".states") continue;
    if (other == stem || other.size() != stem.size() || !other.starts_with(beginning)) continue;
    if (other.find_first_not_of("0123456789abcdef", beginning.size()) == std::string::npos) {
      others.push_back(entry->path().string());
    }
  }
  std::ranges::sort(others);
  return others;
}

}  // namespace

CellJournal::CellJournal(const std::string& folder, const std::string& name, const config::Resolved& resolved,
                         Resumable resumable)
    : CellJournal(folder, header_of(name, resolved), std::move(resumable)) {}

CellJournal::CellJournal(const std::string& folder, const Json& header, Resumable resumable)
    : journal_(path_of(folder, header), header), resumable_(std::move(resumable)) {
  for (std::size_t i = 0; i < journal_.records().size(); ++i) {
    const JournalPart record = journal_.part(i);
    (void)record.at("cell");
    cells_[record.at("key").text()] = i;
  }
  if (cells_.empty()) {
    without_cells_.emplace(path());
  } else {
    has_cells();
  }
}

CellJournal::~CellJournal() {
  if (!has_kept_) remove();
}

void CellJournal::has_cells() {
  without_cells_.reset();
  has_kept_ = true;
  if (resumable_) token_ = resumable_(fmt::format("stopped; the same command goes on from {}\n", printable(path())));
}

std::optional<JournalPart> CellJournal::find(const std::string& key) const {
  const auto it = cells_.find(key);
  if (it == cells_.end()) return std::nullopt;
  return journal_.part(it->second).at("cell");
}

void CellJournal::keep(const std::string& key, const Json& cell) {
  journal_.note({{"key", key}, {"cell", cell}});
  if (!has_kept_) has_cells();
}

std::string CellJournal::others() const {
  std::string lines;
  for (const std::string& other : beside(path())) {
    lines += fmt::format(
        "{}: a stopped run of another configuration or program, or with other instructions; it stays until that is "
        "repeated. If nobody will, delete it\n",
        printable(other));
  }
  return lines;
}

void CellJournal::remove() const {
  std::error_code ignored;
  std::filesystem::remove(path(), ignored);
}

std::string bits_of(std::span<const double> values) {
  std::string bits;
  bits.reserve(digits * values.size());
  for (const double v : values) fmt::format_to(std::back_inserter(bits), "{:016x}", std::bit_cast<std::uint64_t>(v));
  return bits;
}

std::vector<double> values_of(const std::string& bits) {
  if (bits.size() % digits != 0) {
    throw std::invalid_argument(fmt::format("{} hex digits, expected {} for every number", bits.size(), digits));
  }
  if (const std::size_t bad = bits.find_first_not_of("0123456789abcdef"); bad != std::string::npos) {
    throw std::invalid_argument(fmt::format("character {} is no lower-case hex digit", bad));
  }
  std::vector<double> values;
  for (std::size_t i = 0; i < bits.size(); i += digits) {
    std::uint64_t word = 0;
    std::from_chars(bits.data() + i, bits.data() + i + digits, word, 16);
    values.push_back(std::bit_cast<double>(word));
  }
  return values;
}

}  // namespace periscope::stacks
