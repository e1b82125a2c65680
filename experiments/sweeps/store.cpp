#include "experiments/sweeps/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "experiments/engine/cache/encoding.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/sha256.h"
#include "sim/base/printable.h"
#include "sim/files/files_below.h"
#include "sim/files/mapped_file.h"
#include "sim/files/output_file.h"

namespace periscope {

namespace dataset {
// Members of datasets, for serialization (encoding.h).
auto parts(Dimension& d) { return std::tie(d.name, d.length, d.free); }
auto parts(Column& c) { return std::tie(c.name, c.dimensions, c.values, c.units, c.meaning, c.label); }
}  // namespace dataset

namespace sweeps {
namespace {

/// First line of a file of cells. The second line is the SHA-256 of the rest.
constexpr std::string_view magic = "periscope cells 1\n";
constexpr std::size_t checksum_digits = 64;

struct EncodedLayout {
  std::vector<dataset::Dimension> dimensions;
  std::vector<dataset::Column> columns;
  std::string attributes;  ///< JSON
};
auto parts(EncodedLayout& l) { return std::tie(l.dimensions, l.columns, l.attributes); }

/// A cell in a file, with indices into BlockFile::shared.
struct BlockCell {
  std::vector<std::uint64_t> id;
  ExitCode code = ExitCode::ok;
  std::uint32_t layout = 0, coordinates = 0;
  std::string values;
};
auto parts(BlockCell& c) { return std::tie(c.id, c.code, c.layout, c.coordinates, c.values); }

struct BlockFile {
  std::vector<std::string> shared;  ///< layouts and coordinates; "" for failed cells
  std::vector<BlockCell> cells;
};
auto parts(BlockFile& b) { return std::tie(b.shared, b.cells); }

BlockFile decode_block(const std::string& path) {
  const MappedFile file(path);
  std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (!bytes.starts_with(magic)) throw InputError(fmt::format("{}: not a file of cells", printable(path)));
  bytes.remove_prefix(magic.size());
  const std::string_view body = bytes.substr(std::min(bytes.size(), checksum_digits + 1));
  if (bytes.substr(0, checksum_digits + 1) != config::sha256_hex(body) + "\n") {
    throw InputError(fmt::format("{}: checksum mismatch", printable(path)));
  }
  return cache::decode<BlockFile>(body);
}

CellId id_of(const BlockCell& cell) {
  CellId id{};
  if (cell.id.size() != id.size()) throw InputError("unexpected length");
  std::ranges::copy(cell.id, id.begin());
  return id;
}

}  // namespace

bool is_coordinate_or_label(const dataset::Column& column) {
  return column.is_coordinate() || (column.label && column.dimensions.size() == 1);
}

StoredCell stored_cell(const CellId& id, ExitCode code, const dataset::Dataset& data) {
  EncodedLayout layout{data.dimensions, data.columns, config::json_text(data.attributes)};
  StoredCell cell{.id = id, .code = code, .layout = {}, .coordinates = {}, .values = {}};
  std::string coordinates;
  for (dataset::Column& column : layout.columns) {
    cache::put(is_coordinate_or_label(column) ? coordinates : cell.values, column.values);
    std::visit([](auto& list) { list.clear(); }, column.values);
  }
  cell.layout = std::make_shared<const std::string>(cache::encode(layout));
  cell.coordinates = std::make_shared<const std::string>(std::move(coordinates));
  return cell;
}

StoredCell failed_cell(const CellId& id, ExitCode code, const std::string& message) {
  return {.id = id, .code = code, .layout = {}, .coordinates = {}, .values = message};
}

dataset::Dataset layout_of(const std::string& layout) {
  auto decoded = cache::decode<EncodedLayout>(layout);
  return {.dimensions = std::move(decoded.dimensions),
          .columns = std::move(decoded.columns),
          .attributes = Json::parse(decoded.attributes)};
}

std::vector<dataset::Values> values_of(const std::string& values) {
  std::vector<dataset::Values> all;
  for (std::string_view rest = values; !rest.empty();) cache::take(rest, all.emplace_back());
  return all;
}

dataset::Dataset dataset_of(const StoredCell& cell) {
  dataset::Dataset data = layout_of(*cell.layout);
  std::vector<dataset::Values> coordinates = values_of(cell.coordinates ? *cell.coordinates : ""),
                               values = values_of(cell.values);
  std::size_t c = 0, v = 0;
  for (dataset::Column& column : data.columns) {
    const bool coordinate = is_coordinate_or_label(column);
    std::vector<dataset::Values>& list = coordinate ? coordinates : values;
    std::size_t& next = coordinate ? c : v;
    if (next >= list.size()) throw InputError("unexpected number of columns");
    column.values = std::move(list[next++]);
  }
  return data;
}

std::string block_file(const std::string& folder, const std::vector<CellId>& ids) {
  std::string text;
  for (const CellId& id : ids) text += cache::encode(std::vector<std::uint64_t>(id.begin(), id.end()));
  const std::string hash = config::sha256_hex(text);
  return fmt::format("{}/cells/{}/{}", folder, hash.substr(0, 2), hash.substr(0, 16));
}

void write_block(const std::string& folder, const std::vector<StoredCell>& cells) {
  BlockFile block;
  std::map<std::string, std::uint32_t> known;
  const auto index_of = [&](const std::shared_ptr<const std::string>& text) {
    const auto [at, is_new] = known.emplace(text ? *text : "", static_cast<std::uint32_t>(known.size()));
    if (is_new) block.shared.push_back(at->first);
    return at->second;
  };
  std::vector<CellId> ids;
  for (const StoredCell& cell : cells) {
    ids.push_back(cell.id);
    block.cells.push_back({.id = {cell.id.begin(), cell.id.end()},
                           .code = cell.code,
                           .layout = index_of(cell.layout),
                           .coordinates = index_of(cell.coordinates),
                           .values = cell.values});
  }
  const std::string body = cache::encode(block);
  write_file(block_file(folder, ids), fmt::format("{}{}\n{}", magic, config::sha256_hex(body), body));
}

std::vector<StoredCell> read_block(const std::string& path) {
  BlockFile block = decode_block(path);
  std::vector<std::shared_ptr<const std::string>> shared;
  for (std::string& text : block.shared) {
    shared.push_back(text.empty() ? nullptr : std::make_shared<const std::string>(std::move(text)));
  }
  std::vector<StoredCell> cells;
  for (BlockCell& cell : block.cells) {
    if (std::max(cell.layout, cell.coordinates) >= shared.size()) throw InputError("unexpected layout");
    cells.push_back({id_of(cell), cell.code, shared[cell.layout], shared[cell.coordinates], std::move(cell.values)});
  }
  return cells;
}

CellIndex::CellIndex(const std::string& folder) {
  std::error_code unreadable;
  files_ = files_below(folder + "/cells", unreadable);
  std::erase_if(files_, [](const std::string& file) { return file.ends_with(".tmp"); });
  std::vector<std::vector<Entry>> of_file(files_.size());
  std::vector<std::string> messages(files_.size());
#pragma omp parallel for schedule(dynamic, 16)
  for (std::size_t f = 0; f < files_.size(); ++f) {
    try {
      for (const StoredCell& cell : read_block(files_[f])) {
        of_file[f].push_back({cell.id, static_cast<std::uint32_t>(f), cell.failed(), cell.code});
      }
    } catch (const std::exception& error) {  // InputError, or a failed allocation for a damaged length
      of_file[f].clear();
      messages[f] = fmt::format("{}: ignored: {}", printable(files_[f]), error.what());
    }
  }
  for (const auto& some : of_file) entries_.insert(entries_.end(), some.begin(), some.end());
  std::ranges::stable_sort(entries_, {}, &Entry::key);
  std::ranges::copy_if(messages, std::back_inserter(damaged_), [](const std::string& m) { return !m.empty(); });
}

const CellIndex::Entry* CellIndex::find(const CellId& id) const {
  const auto at = std::ranges::lower_bound(entries_, id, {}, &Entry::id);
  return at == entries_.end() || at->id != id ? nullptr : &*at;
}

const StoredCell* CellReader::read(const CellId& id) {
  const CellIndex::Entry* entry = index_->find(id);
  if (entry == nullptr) return nullptr;
  if (const std::string& path = index_->path(*entry); path != path_) {
    cells_.clear();
    path_ = path;
    try {
      cells_ = read_block(path);
    } catch (const InputError&) {  // changed since the index was built
    }
  }
  const auto at = std::ranges::find(cells_, id, &StoredCell::id);
  return at == cells_.end() ? nullptr : &*at;
}

}  // namespace sweeps

}  // namespace periscope
