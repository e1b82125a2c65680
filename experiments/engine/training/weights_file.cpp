#include "experiments/engine/training/weights_file.h"

#include "sim/checkpoint/safetensors_writer.h"
#include "sim/model/parameters.h"

namespace periscope::training {

void write_weights(const Backend& ops, const ResidentWeights::Parameters& parameters, SafetensorsType type,
                   OutputFile& output) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [id, x] : parameters) {
    std::vector<std::int64_t> shape{x.rows(), x.cols()};
    if (id.part != ParameterId::Part::matrix) shape = {x.cols()};
    entries.push_back({name_of(id), type, shape});
  }
  SafetensorsWriter writer(output, entries);
  for (const auto& [id, x] : parameters) {
    const std::vector<double> values = ops.to_host(x);
    if (type == SafetensorsType::f64) {
      writer.put(name_of(id), values);
    } else {
      writer.put(name_of(id), std::vector<float>(values.begin(), values.end()));
    }
  }
  writer.close();
}

}  // namespace periscope::training
