#include "experiments/command/cell_journal.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <filesystem>

#include "experiments/results/json_text.h"

namespace periscope {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t digits = 16;

Json header_of(const std::string& name, const Resolved& resolved) {
  return {{"journal", name},
          {"config_sha256", sha256_hex(json_text(resolved.hashed))},
          {"program_sha256", sha256_of_file("/proc/self/exe")}};
}

std::string path_of(const std::string& folder, const Json& header) {
  return fmt::format("{}/{}-{}.journal", folder, std::string(header["journal"]),
                     sha256_hex(header.dump()).substr(0, 12));
}

}  // namespace

CellJournal::CellJournal(const std::string& folder, const std::string& name, const Resolved& resolved, bool quiet)
    : CellJournal(folder, header_of(name, resolved), quiet) {}

CellJournal::CellJournal(const std::string& folder, const Json& header, bool quiet)
    : journal_(path_of(folder, header), header), quiet_(quiet) {
  for (const Json& record : journal_.records()) cells_[record.at("key")] = record.at("cell");
  if (!cells_.empty()) has_cells();
}

CellJournal::~CellJournal() {
  if (!resumable_) remove();
}

void CellJournal::has_cells() {
  resumable_.emplace(quiet_ ? "" : fmt::format("stopped; the same command goes on from {}\n", path()));
}

const Json* CellJournal::find(const std::string& key) const {
  const auto it = cells_.find(key);
  return it == cells_.end() ? nullptr : &it->second;
}

void CellJournal::keep(const std::string& key, const Json& cell) {
  journal_.note({{"key", key}, {"cell", cell}});
  if (!resumable_) has_cells();
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
  std::vector<double> values;
  for (std::size_t i = 0; i + digits <= bits.size(); i += digits) {
    std::uint64_t word = 0;
    std::from_chars(bits.data() + i, bits.data() + i + digits, word, 16);
    values.push_back(std::bit_cast<double>(word));
  }
  return values;
}

}  // namespace periscope
