#include "experiments/engine/training/state_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "experiments/engine/settings/sha256.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/base/whole_number.h"
#include "sim/checkpoint/safetensors_reader.h"
#include "sim/checkpoint/safetensors_writer.h"
#include "sim/model/parameters.h"

namespace periscope::training {
namespace {

constexpr std::string_view checksum = "sha256";
constexpr std::size_t checksum_length = 64;  // hexadecimal digits
const std::string record_prefix = "record.";

using Numbers = std::vector<double>;

/// The parts of a history that have a number for every step.
constexpr std::pair<std::string_view, Numbers CellHistory::*> series[] = {
    {"loss", &CellHistory::loss},
    {"grad_norm", &CellHistory::grad_norm},
    {"last_layer_norm", &CellHistory::last_layer_norm}};

/// Calls visit(name, tensor) for every tensor of a state, in the order of the file.
template <class Visit>
void visit_tensors(const TrainingState& state, const Visit& visit) {
  for (const auto& [id, x] : state.parameters) visit("parameter." + name_of(id), x);
  for (const auto& [id, x] : state.optimizer) {
    visit("mean." + name_of(id), x.mean);
    if (!x.square.empty()) visit("square." + name_of(id), x.square);
  }
}

std::span<const std::byte> bytes_of(std::span<const double> values) { return std::as_bytes(values); }

std::string hash_of(std::span<const std::byte> bytes) {
  return config::sha256_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// Sums up the parts of a file: their names and hashes, in any order.
class Checksum {
 public:
  void add(const std::string& name, std::span<const std::byte> bytes) { parts_[name] = hash_of(bytes); }
  [[nodiscard]] std::string text(const std::string& identity, int steps) const {
    std::string all = fmt::format("{} {}\n", identity, steps);
    for (const auto& [name, hash] : parts_) all += fmt::format("{} {}\n", name, hash);
    return config::sha256_hex(all);
  }

 private:
  std::map<std::string, std::string> parts_;
};

[[noreturn]] void refuse_file(const std::string& path, const std::string& reason) {
  throw InputError(fmt::format("{}: {}", path, reason));
}

int number_in(const std::string& text, const std::string& path) {
  if (const auto value = parse_whole_number(text)) return static_cast<int>(*value);
  refuse_file(path,
              fmt::format("found \"{}\" as a number of steps, expected a whole number from 0 on", shortened(text)));
}

/// "record.<step>.<name>".
void read_record(const std::string& tensor, const SafetensorsFile& file, CellHistory& history) {
  const std::size_t dot = tensor.find('.', record_prefix.size());
  if (dot == std::string::npos) refuse_file(file.path(), fmt::format("{}: no name of a record", tensor));
  const int step = number_in(tensor.substr(record_prefix.size(), dot - record_prefix.size()), file.path());
  history.records[step][tensor.substr(dot + 1)] = file.values(tensor);
}

}  // namespace

void StateFile::write(const Backend& ops, const TrainingState& state, const CellHistory& history) const {
  std::vector<SafetensorsEntry> entries;
  const auto shape = [](const Tensor& x) { return std::vector<std::int64_t>{x.rows(), x.cols()}; };
  const auto length = [](const Numbers& x) { return std::vector{static_cast<std::int64_t>(x.size())}; };
  for (const auto& [name, part] : series) {
    entries.push_back({std::string(name), SafetensorsType::f64, length(history.*part)});
  }
  for (const auto& [step, values] : history.records) {
    for (const auto& [name, x] : values) {
      entries.push_back({fmt::format("{}{}.{}", record_prefix, step, name), SafetensorsType::f64, length(x)});
    }
  }
  visit_tensors(state, [&](const std::string& name, const Tensor& x) {
    entries.push_back({name, written_type(x.dtype()), shape(x)});
  });
  entries.push_back({std::string(checksum), SafetensorsType::u8, {static_cast<std::int64_t>(checksum_length)}});
  OutputFile file(path_);
  SafetensorsWriter writer(file, entries, {{"identity", identity_}, {"steps", fmt::format("{}", state.steps)}});
  Checksum sum;
  const auto put = [&](const std::string& name, std::span<const std::byte> bytes) {
    sum.add(name, bytes);
    writer.put_bytes(name, bytes);
  };
  for (const auto& [name, part] : series) put(std::string(name), bytes_of(history.*part));
  for (const auto& [step, values] : history.records) {
    for (const auto& [name, x] : values) put(fmt::format("{}{}.{}", record_prefix, step, name), bytes_of(x));
  }
  visit_tensors(state, [&](const std::string& name, const Tensor& x) {
    const Numbers values = ops.to_host(x);
    if (x.dtype() == DType::f64) return put(name, bytes_of(values));
    const std::vector<float> narrow(values.begin(), values.end());
    put(name, std::as_bytes(std::span(narrow)));
  });
  const std::string total = sum.text(identity_, state.steps);
  writer.put_bytes(std::string(checksum), std::as_bytes(std::span(total)));
  writer.close();
  file.commit();
}

std::optional<StateFile::Content> StateFile::read(const Backend& ops, const TrainingState& like) const {
  const std::filesystem::file_status status = std::filesystem::symlink_status(path_);
  if (!std::filesystem::exists(status)) return std::nullopt;
  try {
    if (std::filesystem::is_symlink(status)) {
      refuse_file(path_, "this is a symbolic link, expected a regular file");
    }
    return content_of(SafetensorsFile(path_), ops, like);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}; without this file its run begins again", error.what()));
  }
}

StateFile::Content StateFile::content_of(const SafetensorsFile& file, const Backend& ops,
                                         const TrainingState& like) const {
  const auto metadata = [&](const std::string& key) {
    const auto it = file.metadata().find(key);
    return it == file.metadata().end() ? std::string() : it->second;
  };
  if (metadata("identity") != identity_) {
    refuse_file(path_, fmt::format("the state of another run, or damaged: it is of {}, expected {}",
                                   shortened(metadata("identity")), identity_));
  }
  Content content{.state = like, .history = {}};
  content.state.steps = number_in(metadata("steps"), path_);
  Checksum sum;
  for (const auto& [name, view] : file.tensors()) {
    if (name != checksum) sum.add(name, view.bytes);
  }
  const SafetensorsView& written = file.find(std::string(checksum));
  const std::string expected = sum.text(identity_, content.state.steps);
  if (!std::ranges::equal(written.bytes, std::as_bytes(std::span(expected)))) {
    refuse_file(path_, "damaged: its content is not what its checksum says");
  }
  for (const auto& [name, part] : series) content.history.*part = file.values(std::string(name));
  for (const auto& [name, view] : file.tensors()) {
    if (name.starts_with(record_prefix)) read_record(name, file, content.history);
  }
  const auto stored = [&](const std::string& name, const Tensor& shaped) {
    if (!file.tensors().contains(name)) return Tensor();
    return ops.from_host(shaped.rows(), shaped.cols(), shaped.dtype(), file.values(name));
  };
  const bool has_weights =
      std::ranges::any_of(file.tensors(), [](const auto& tensor) { return tensor.first.starts_with("parameter."); });
  if (!has_weights) content.state.parameters.clear();
  for (auto& [id, x] : content.state.parameters) {
    const std::string name = name_of(id);
    x = ops.from_host(x.rows(), x.cols(), x.dtype(), file.values("parameter." + name));
    const GradientMoments moments{.mean = stored("mean." + name, x), .square = stored("square." + name, x)};
    if (!moments.mean.empty()) content.state.optimizer[id] = moments;
  }
  return content;
}

}  // namespace periscope::training
