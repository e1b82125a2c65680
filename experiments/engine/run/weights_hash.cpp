#include "experiments/engine/run/weights_hash.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "experiments/engine/settings/sha256.h"

namespace periscope::stacks {

namespace {

template <class Values>
std::size_t bytes_of(const Values& values) {
  return static_cast<std::size_t>(values.size()) * sizeof(double);
}

std::string hash_of_memory(const SafetensorsFile& file) {
  config::Sha256 digest;
  for (const auto& [name, view] : file.tensors()) {
    const std::string words = fmt::format("{} {} {}\n", name, name_of(view.type), fmt::join(view.shape, " "));
    digest.add(words.data(), words.size());
    digest.add(view.bytes.data(), view.bytes.size());
  }
  return digest.hex();
}

}  // namespace

std::vector<NamedHash> hashes_of_files(const TensorFiles& files) {
  std::vector<NamedHash> hashes;
  for (const SafetensorsFile& file : files.files()) {
    if (file.tensors().empty()) continue;
    if (file.file().is_memory()) {
      hashes.emplace_back("tensors", hash_of_memory(file));
      continue;
    }
    hashes.emplace_back(std::filesystem::path(file.path()).filename().string(), config::sha256_of(file.file()));
  }
  return hashes;
}

HashedParameters::HashedParameters(const theory::Parameters& parameters)
    : parameters_(parameters), digest_(std::make_unique<config::Sha256>()) {}
HashedParameters::~HashedParameters() = default;

theory::RowMatrix HashedParameters::matrix(int layer, Weight weight) const {
  theory::RowMatrix w = parameters_.matrix(layer, weight);
  digest_->add(w.data(), bytes_of(w));
  return w;
}

void HashedParameters::visit_rows(Weight weight, const BlockVisitor& visit) const {
  parameters_.visit_rows(weight, [&](Eigen::Index first, const theory::RowMatrix& rows) {
    digest_->add(rows.data(), bytes_of(rows));
    visit(first, rows);
  });
}

Eigen::VectorXd HashedParameters::bias(int layer, Weight weight) const {
  Eigen::VectorXd b = parameters_.bias(layer, weight);
  digest_->add(b.data(), bytes_of(b));
  return b;
}

theory::NormParameters HashedParameters::norm(int sublayer, Weight norm_at) const {
  theory::NormParameters n = parameters_.norm(sublayer, norm_at);
  digest_->add(n.gain.data(), bytes_of(n.gain));
  digest_->add(n.bias.data(), bytes_of(n.bias));
  if (n.alpha != 1.0) digest_->add(&n.alpha, sizeof n.alpha);  // 1 where there is none
  return n;
}

std::string HashedParameters::hash() const { return digest_->hex(); }

}  // namespace periscope::stacks
