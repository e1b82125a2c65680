#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "experiments/engine/settings/json_text.h"
#include "python/bindings/bindings.h"
#include "python/bindings/worker_thread.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/checkpoint/weight_check.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace periscope::python {
namespace {

/// Bytes of a tensor in row-major order.
using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
/// Type name as in safetensors files, shape, bytes.
using GivenTensor = std::tuple<std::string, std::vector<std::int64_t>, Bytes>;

/// Memory of a model's tensors: arrays of the caller, or copies of them.
struct Owner {
  std::vector<Bytes> arrays;
  std::vector<std::vector<std::byte>> copies;
};

SafetensorsView view_of(const std::string& name, const GivenTensor& given, bool copy, Owner& owner) {
  const auto& [type_name, shape, array] = given;
  const auto type = safetensors_type(type_name);
  if (!type)
    throw InputError(
        fmt::format("tensor \"{}\": type {}: expected one of {}", name, type_name, safetensors_type_names()));
  SafetensorsView view{.type = *type, .shape = shape};
  std::uint64_t bytes = static_cast<std::uint64_t>(bits_of(*type)) / 8;
  for (const std::int64_t length : shape) bytes *= static_cast<std::uint64_t>(length);
  if (bytes != array.size()) {
    throw InputError(fmt::format("tensor \"{}\": found {} bytes, expected {}", printable(name), array.size(), bytes));
  }
  const std::span<const std::byte> given_bytes{reinterpret_cast<const std::byte*>(array.data()), array.size()};
  if (copy) {
    owner.copies.emplace_back(given_bytes.begin(), given_bytes.end());
    view.bytes = owner.copies.back();
  } else {
    owner.arrays.push_back(array);
    view.bytes = given_bytes;
  }
  return view;
}

/// Returns the findings of check_weights as JSON.
std::string check(const Model* model, const std::string& folder, const std::vector<std::string>& ignored,
                  const std::vector<std::string>& ignore_keys) {
  constexpr auto copies = Checkpoint::TiedCopies::may_differ;
  nlohmann::ordered_json findings = nlohmann::ordered_json::array();
  run_on_worker([&] {
    const Checkpoint checkpoint = model != nullptr
                                      ? Checkpoint(model->memory, ignore_keys, copies)
                                      : Checkpoint(folder, ignore_keys, copies, Checkpoint::Mixtures::read);
    for (const Finding& one : check_weights(checkpoint, ignored)) findings.push_back(json_of(one));
  });
  return config::json_text(findings);
}

}  // namespace

void add_model(nb::module_& module) {
  nb::class_<Model>(module, "Model", "A model in memory: the text of config.json, and tensors.")
      .def(
          "__init__",
          [](Model* self, const std::string& name, const std::string& config,
             const std::map<std::string, GivenTensor>& tensors, bool copy,
             const std::vector<std::string>& ignore_keys) {
            const auto owner = std::make_shared<Owner>();
            owner->copies.reserve(tensors.size());  // no reallocation: views point into the copies
            auto memory = std::make_shared<MemoryModel>();
            memory->name = name;
            memory->config = config;
            memory->ignore_keys = ignore_keys;
            for (const auto& [tensor, given] : tensors) {
              memory->tensors.tensors.emplace(tensor, view_of(tensor, given, copy, *owner));
            }
            memory->owner = owner;
            new (self) Model{std::move(memory)};
          },
          "name"_a, "config"_a, "tensors"_a, "copy"_a = true, "ignore_keys"_a = std::vector<std::string>())
      .def_prop_ro("name", [](const Model& model) { return model.memory->name; });
  module.def("check", &check, "model"_a.none(), "folder"_a, "ignored"_a, "ignore_keys"_a,
             "Returns the faults of a model's or a folder's weights as JSON.");
}

}  // namespace periscope::python
