#include "sim/checkpoint/safetensors_writer.h"

#include <bit>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace periscope {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

constexpr std::uint64_t alignment = 8;
constexpr const char* metadata_entry = "__metadata__";

std::uint64_t bytes_of(const SafetensorsEntry& entry) {
  auto bits = static_cast<std::uint64_t>(bits_of(entry.type));
  for (const std::int64_t length : entry.shape) bits *= static_cast<std::uint64_t>(length);
  if (bits % 8 != 0)
    throw std::logic_error("safetensors: " + entry.name + " has a size that is not a whole number of bytes");
  return bits / 8;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(OutputFile& file, const std::vector<SafetensorsEntry>& entries,
                                     const std::map<std::string, std::string>& metadata)
    : file_(file) {
  begin(entries, metadata);
}

SafetensorsWriter::SafetensorsWriter(const std::string& path, const std::vector<SafetensorsEntry>& entries,
                                     const std::map<std::string, std::string>& metadata)
    : own_(std::in_place, path), file_(*own_) {
  begin(entries, metadata);
}

void SafetensorsWriter::begin(const std::vector<SafetensorsEntry>& entries,
                              const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json[metadata_entry] = metadata;
  std::uint64_t end = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::uint64_t begin = end;
    end += bytes_of(entry);
    json[entry.name] = {{"dtype", name_of(entry.type)}, {"shape", entry.shape}, {"data_offsets", {begin, end}}};
    if (entry.name == metadata_entry || !slots_.insert({entry.name, {entry.type, end - begin, begin, false}}).second) {
      throw std::logic_error("safetensors: duplicate name: " + entry.name);
    }
  }
  std::string header = json.dump();
  header.resize((header.size() + alignment - 1) / alignment * alignment, ' ');
  const std::uint64_t length = header.size();
  file_.reserve(sizeof(length) + length + end);
  file_.write_at(0, {reinterpret_cast<const char*>(&length), sizeof(length)});
  file_.write_at(sizeof(length), header);
  for (auto& [name, slot] : slots_) slot.offset += sizeof(length) + length;
}

void SafetensorsWriter::put_bytes(const std::string& name, std::span<const std::byte> bytes,
                                  std::optional<SafetensorsType> type) {
  const auto found = slots_.find(name);
  if (found == slots_.end()) throw std::logic_error("safetensors: unknown tensor " + name);
  Slot& slot = found->second;
  if (slot.type != type.value_or(slot.type) || slot.bytes != bytes.size() || slot.written) {
    throw std::logic_error("safetensors: " + name + " has a wrong type or size, or was already written");
  }
  slot.written = true;
  file_.write_at(slot.offset, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void SafetensorsWriter::close() {
  for (const auto& [name, slot] : slots_) {
    if (!slot.written) throw std::logic_error("safetensors: " + name + " was not written");
  }
  if (own_) own_->commit();
}

}  // namespace periscope
