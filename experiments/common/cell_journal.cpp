#include "experiments/common/cell_journal.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <filesystem>

#include "experiments/common/json_text.h"
#include "sim/spec/error.h"

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

CellJournal::CellJournal(const std::string& folder, const std::string& name, const Resolved& resolved)
    : CellJournal(folder, header_of(name, resolved)) {}

CellJournal::CellJournal(const std::string& folder, const Json& header) : journal_(path_of(folder, header), header) {
  for (const Json& record : journal_.records()) cells_[record.at("key")] = record.at("cell");
  empty_ = cells_.empty();
}

CellJournal::~CellJournal() {
  if (empty_) remove();
}

const Json* CellJournal::find(const std::string& key) const {
  const auto it = cells_.find(key);
  return it == cells_.end() ? nullptr : &it->second;
}

void CellJournal::keep(const std::string& key, const Json& cell) {
  journal_.note({{"key", key}, {"cell", cell}});
  empty_ = false;
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
