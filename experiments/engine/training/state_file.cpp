#include "experiments/engine/training/state_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "experiments/engine/settings/sha256.h"
#include "sim/base/error.h"
#include "sim/base/parse_integer.h"
#include "sim/base/printable.h"
#include "sim/checkpoint/safetensors_reader.h"
#include "sim/checkpoint/safetensors_writer.h"
#include "sim/model/parameters.h"

namespace periscope::training {
namespace {

constexpr std::string_view checksum = "sha256";
constexpr std::size_t checksum_length = 64;  // hexadecimal digits
const std::string record_prefix = "record.";

using Numbers = std::vector<double>;

/// The parts of a history with one number per step.
constexpr std::pair<std::string_view, Numbers TrainingHistory::*> series[] = {
    {"loss", &TrainingHistory::loss},
    {"grad_norm", &TrainingHistory::grad_norm},
    {"last_layer_norm", &TrainingHistory::last_layer_norm}};

/// Calls visit(name, numbers) for every list in a history, in the order of the file.
template <class Visit>
void visit_numbers(const TrainingHistory& history, const Visit& visit) {
  for (const auto& [name, part] : series) visit(std::string(name), history.*part);
  for (const auto& [step, values] : history.records) {
    for (const auto& [name, x] : values) visit(fmt::format("{}{}.{}", record_prefix, step, name), x);
  }
}

/// Calls visit(name, tensor) for every tensor in a state, in the order of the file.
template <class Visit>
void visit_tensors(const TrainingState& state, const Visit& visit) {
  for (const auto& [id, x] : state.parameters) visit("parameter." + name_of(id), x);
  for (const auto& [id, x] : state.optimizer) {
    visit("mean." + name_of(id), x.mean);
    if (!x.square.empty()) visit("square." + name_of(id), x.square);
  }
}

std::string hash_of(std::span<const std::byte> bytes) {
  return config::sha256_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// Returns the checksum of a file, from the hashes of its parts by name.
std::string checksum_of(const std::map<std::string, std::string>& hashes, const std::string& identity, int steps) {
  std::string all = fmt::format("{} {}\n", identity, steps);
  for (const auto& [name, hash] : hashes) all += fmt::format("{} {}\n", name, hash);
  return config::sha256_hex(all);
}

[[noreturn]] void reject_file(const std::string& path, const std::string& reason) {
  throw InputError(fmt::format("{}: {}", path, reason));
}

int parse_steps(const std::string& text, const std::string& path) {
  if (const auto value = parse_integer(text)) return static_cast<int>(*value);
  reject_file(path, fmt::format("number of steps \"{}\": expected a whole number of at least 0", shortened(text)));
}

/// Reads the tensor "record.<step>.<name>" into a history.
void read_record(const std::string& tensor, const SafetensorsFile& file, TrainingHistory& history) {
  const std::size_t dot = tensor.find('.', record_prefix.size());
  if (dot == std::string::npos) {
    reject_file(file.path(), fmt::format("{}: expected a tensor name record.STEP.NAME", tensor));
  }
  const int step = parse_steps(tensor.substr(record_prefix.size(), dot - record_prefix.size()), file.path());
  history.records[step][tensor.substr(dot + 1)] = file.values(tensor);
}

}  // namespace

void StateFile::write(const Backend& ops, const TrainingState& state, const TrainingHistory& history) const {
  std::vector<SafetensorsEntry> entries;
  visit_numbers(history, [&](const std::string& name, const Numbers& x) {
    entries.push_back({name, SafetensorsType::f64, {static_cast<std::int64_t>(x.size())}});
  });
  visit_tensors(state, [&](const std::string& name, const Tensor& x) {
    entries.push_back({name, written_type(x.dtype()), {x.rows(), x.cols()}});
  });
  entries.push_back({std::string(checksum), SafetensorsType::u8, {static_cast<std::int64_t>(checksum_length)}});
  OutputFile file(path_);
  SafetensorsWriter writer(file, entries, {{"identity", identity_}, {"steps", fmt::format("{}", state.steps)}});
  std::map<std::string, std::string> hashes;
  const auto put = [&]<class T>(const std::string& name, const std::vector<T>& values) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
    hashes[name] = hash_of(bytes);
    writer.put_bytes(name, bytes);
  };
  visit_numbers(history, put);
  visit_tensors(state, [&](const std::string& name, const Tensor& x) {
    const Numbers values = ops.to_host(x);
    if (x.dtype() == DType::f64) return put(name, values);
    put(name, std::vector<float>(values.begin(), values.end()));
  });
  const std::string total = checksum_of(hashes, identity_, state.steps);
  writer.put_bytes(std::string(checksum), std::as_bytes(std::span(total)));
  writer.close();
  file.commit();
}

std::optional<StateFile::Content> StateFile::read(const Backend& ops, const TrainingState& like) const {
  const std::filesystem::file_status status = std::filesystem::symlink_status(path_);
  if (!std::filesystem::exists(status)) return std::nullopt;
  try {
    if (std::filesystem::is_symlink(status)) reject_file(path_, "expected a regular file, found a symbolic link");
    return content_of(SafetensorsFile(path_), ops, like);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}; delete the file to restart this run", error.what()));
  }
}

StateFile::Content StateFile::content_of(const SafetensorsFile& file, const Backend& ops,
                                         const TrainingState& like) const {
  const auto metadata = [&](const std::string& key) {
    const auto it = file.metadata().find(key);
    return it == file.metadata().end() ? std::string() : it->second;
  };
  if (metadata("identity") != identity_) {
    reject_file(path_, fmt::format("damaged, or the state of another run: expected identity {}, found {}", identity_,
                                   shortened(metadata("identity"))));
  }
  Content content{.state = like, .history = {}};
  content.state.steps = parse_steps(metadata("steps"), path_);
  std::map<std::string, std::string> hashes;
  for (const auto& [name, view] : file.tensors()) {
    if (name != checksum) hashes[name] = hash_of(view.bytes);
  }
  const SafetensorsView& written = file.find(std::string(checksum));
  const std::string expected = checksum_of(hashes, identity_, content.state.steps);
  if (!std::ranges::equal(written.bytes, std::as_bytes(std::span(expected)))) {
    reject_file(path_, "damaged: checksum mismatch");
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
