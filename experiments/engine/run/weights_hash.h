#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experiments/engine/settings/sha256.h"
#include "sim/checkpoint/tensor_files.h"
#include "theory/certify/parameters.h"

namespace periscope::stacks {

/// Name and SHA-256, in hex.
using NamedHash = std::pair<std::string, std::string>;

/// Returns the SHA-256 of every file that holds a checkpoint's tensors, as sha256sum prints them, sorted by name. It
/// reads the files that are open, even if others have taken their names. Call it before a run, because it reads all
/// files. Of tensors in memory there is one hash, "tensors", of their names, types, shapes and bytes.
std::vector<NamedHash> hashes_of_files(const TensorFiles& files);

/// Another source's parameters, with the SHA-256 of everything that was read, as f64 in the order of reading.
class HashedParameters final : public theory::Parameters {
 public:
  /// The parameters outlive this.
  explicit HashedParameters(const theory::Parameters& parameters);
  ~HashedParameters() override;

  [[nodiscard]] theory::RowMatrix matrix(int layer, Weight weight) const override;
  void visit_rows(Weight weight, const BlockVisitor& visit) const override;
  [[nodiscard]] Eigen::VectorXd bias(int layer, Weight weight) const override;
  [[nodiscard]] theory::NormParameters norm(int sublayer, Weight norm) const override;
  [[nodiscard]] std::string entry_name(const ParameterId& id, Eigen::Index entry) const override {
    return parameters_.entry_name(id, entry);
  }

  /// Once, at the end.
  [[nodiscard]] std::string hash() const;

 private:
  const theory::Parameters& parameters_;
  std::unique_ptr<config::Sha256> digest_;
};

}  // namespace periscope::stacks
