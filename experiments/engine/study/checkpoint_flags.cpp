#include "experiments/engine/study/checkpoint_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "experiments/engine/settings/sha256.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"

namespace periscope::study {
namespace {

std::string hash_of_tensors(const SafetensorsFile& file) {
  config::Sha256 digest;
  for (const auto& [name, view] : file.tensors()) {
    const std::string words = fmt::format("{} {} {}\n", name, name_of(view.type), fmt::join(view.shape, " "));
    digest.add(words.data(), words.size());
    digest.add(view.bytes.data(), view.bytes.size());
  }
  return digest.hex();
}

}  // namespace

std::unique_ptr<Checkpoint> CheckpointConfig::open(Checkpoint::Mixtures mixtures) const {
  return model ? std::make_unique<Checkpoint>(model, ignore_keys)
               : std::make_unique<Checkpoint>(checkpoint, ignore_keys, Checkpoint::TiedCopies::must_be_equal, mixtures);
}

std::string CheckpointConfig::model_name() const {
  return std::filesystem::path(checkpoint + "/.").lexically_normal().parent_path().filename().string();
}

std::vector<NamedHash> hashes_of_files(const TensorFiles& files) {
  std::vector<NamedHash> hashes;
  for (const SafetensorsFile& file : files.files()) {
    if (file.tensors().empty()) continue;
    if (file.file().is_memory()) {
      hashes.emplace_back("tensors", hash_of_tensors(file));
    } else {
      hashes.emplace_back(std::filesystem::path(file.path()).filename().string(), config::sha256_of(file.file()));
    }
  }
  return hashes;
}

void set_checkpoint(dataset::Dataset& data, const std::string& name, const std::vector<std::string>& ignored_keys) {
  data.attributes["checkpoint"] = name;
  if (!ignored_keys.empty()) data.attributes["ignored_keys"] = fmt::format("{}", fmt::join(ignored_keys, ", "));
}

void require_other_folder(std::string_view key, const std::string& folder, const std::string& checkpoint) {
  std::error_code none;
  if (folder.empty() || checkpoint.empty() || !std::filesystem::equivalent(folder, checkpoint, none)) return;
  throw ConfigError(fmt::format("{} = {}: expected a folder other than the checkpoint's, such as {}", key,
                                printable(folder), printable((std::filesystem::path(folder) / "results").string())));
}

nlohmann::ordered_json hashes_of(const Checkpoint& checkpoint) {
  nlohmann::ordered_json files{{"config.json", config::sha256_of(checkpoint.config_file())}};
  for (const auto& [name, hash] : hashes_of_files(checkpoint.files())) files[name] = hash;
  return files;
}

void require_keys_of_checkpoint(const config::Config& config, const std::vector<std::string>& allowed) {
  for (const std::string& key : config.given) {
    if (std::ranges::any_of(allowed, [&](const std::string& prefix) { return key.starts_with(prefix); })) continue;
    throw ConfigError(fmt::format("{}: does not apply to a checkpoint; expected keys that begin with {}", key,
                                  fmt::join(allowed, ", ")));
  }
}

config::Config load_for_checkpoint(const Request& request) {
  config::Config config = request.load();
  require_keys_of_checkpoint(config, {"init.", "run.", "theory.", "agreement.", "input.second_moment"});
  config.run.dtype = config.run.dtype_choice.value_or(DType::f64);
  return config;
}

}  // namespace periscope::study
