#include "sim/checkpoint/safetensors_writer.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "sim/spec/error.h"

namespace periscope {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

constexpr std::uint64_t element = 8;  // bytes of f64 and of i64
static_assert(sizeof(double) == element && sizeof(std::int64_t) == element);

std::uint64_t count_of(const std::vector<std::int64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t length : shape) count *= static_cast<std::uint64_t>(length);
  return count;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::string path, const std::vector<SafetensorsEntry>& entries)
    : path_(std::move(path)), file_(path_, std::ios::binary) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  std::uint64_t end = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::uint64_t begin = end;
    const std::uint64_t count = count_of(entry.shape);
    end += count * element;
    json[entry.name] = {{"dtype", entry.type == SafetensorsType::f64 ? "F64" : "I64"},
                        {"shape", entry.shape},
                        {"data_offsets", {begin, end}}};
    if (!slots_.insert({entry.name, {entry.type, count, begin, false}}).second) {
      throw std::logic_error("safetensors: two tensors are called " + entry.name);
    }
  }
  std::string header = json.dump();
  header.resize((header.size() + element - 1) / element * element, ' ');
  const std::uint64_t length = header.size();
  file_.write(reinterpret_cast<const char*>(&length), sizeof(length));
  file_ << header;
  for (auto& [name, slot] : slots_) slot.offset += sizeof(length) + length;
}

void SafetensorsWriter::put(const std::string& name, std::span<const double> values) {
  put_bytes(name, SafetensorsType::f64, values.size(), values.data());
}

void SafetensorsWriter::put(const std::string& name, std::span<const std::int64_t> values) {
  put_bytes(name, SafetensorsType::i64, values.size(), values.data());
}

void SafetensorsWriter::put_bytes(const std::string& name, SafetensorsType type, std::uint64_t count,
                                  const void* bytes) {
  const auto found = slots_.find(name);
  if (found == slots_.end()) throw std::logic_error("safetensors: no tensor is called " + name);
  Slot& slot = found->second;
  if (slot.type != type || slot.count != count || slot.written) {
    throw std::logic_error("safetensors: " + name + " has another type or size, or was written already");
  }
  slot.written = true;
  file_.seekp(static_cast<std::streamoff>(slot.offset));
  file_.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count * element));
}

void SafetensorsWriter::close() {
  for (const auto& [name, slot] : slots_) {
    if (!slot.written) throw std::logic_error("safetensors: " + name + " was not written");
  }
  file_.close();
  if (!file_) throw Error(ExitCode::runtime_failure, "cannot write " + path_ + ": " + std::strerror(errno));
}

}  // namespace periscope
