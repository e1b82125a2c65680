#include <random>

#include "sim/checkpoint/checkpoint_weights.h"
#include "sim/model/parameters.h"
#include "tests/checkpoint/edited_checkpoint.h"
#include "tests/checkpoint/mutate.h"
#include "tests/support/doctest.h"
#include "tests/support/targets.h"

namespace periscope::testing {
namespace {

/// Applies one to four random changes: bytes, JSON tokens, repeated or deleted pieces.
std::string mutated_text(std::string text, std::mt19937_64& random) {
  const std::vector<std::string> words{"0",       "-1",  "1e999", "null", "true", "[]", "{}", "\"x\"",   "4294967296",
                                       "1048576", "0.5", "7",     "",     ",",    "\"", "}",  "\\u0000", "16777216"};
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  for (std::size_t changes = 1 + below(4); changes > 0 && !text.empty(); --changes) {
    const std::size_t at = below(text.size());
    const std::size_t end = text.find_first_of(",\n}", at);
    const std::size_t colon = text.find(": ", at);
    switch (below(5)) {
      case 0: text[at] = static_cast<char>(below(256)); break;
      case 1: text.erase(at, below(20)); break;
      case 2: text.insert(at, text.substr(below(text.size()), below(40))); break;
      case 3: text.insert(at, words[below(words.size())]); break;
      default:  // replaces the value of the next key
        if (colon != std::string::npos && end != std::string::npos) {
          const std::size_t stop = text.find_first_of(",\n", colon);
          text.replace(colon + 2, stop == std::string::npos ? 0 : stop - colon - 2, words[below(words.size())]);
        }
    }
  }
  return text;
}

/// Returns true if all weights of the checkpoint can be read. Exceptions other than InputError propagate.
bool is_accepted(const std::string& folder) {
  try {
    const Checkpoint checkpoint(folder);
    const CheckpointWeights weights(truth(), checkpoint, DType::f64);
    for (int l = -1; l <= checkpoint.model().sublayers(); ++l) {
      for (const auto& [weight, linear] : weights.fetch(l).linear) (void)linear.map->dense();
    }
    return true;
  } catch (const InputError& error) {
    const std::string message = error.what();
    CHECK((message.starts_with("malformed: ") || message.starts_with("unsupported: ")));
    CHECK(message.find('\n') == std::string::npos);
    return false;
  }
}

TEST_CASE("mutated config.json and tensor files are read or rejected with an InputError") {
  std::mt19937_64 random(20);
  int accepted = 0;
  int rejected = 0;
  for (const std::string& name : fixture_names()) {
    const std::string config = bytes_of_file(fixture(name) + "/config.json");
    const std::string tensors = bytes_of_file(fixture(name) + "/model.safetensors");
    const TemporaryFolder folder;
    for (int i = 0; i < 60; ++i) {
      const bool of_config = i % 3 != 0;
      folder.write("config.json", of_config ? mutated_text(config, random) : config);
      folder.write("model.safetensors", of_config ? tensors : mutated(tensors, random));
      (is_accepted(folder.path()) ? accepted : rejected) += 1;
    }
  }
  CHECK(accepted > 10);
  CHECK(rejected > 500);
}

}  // namespace
}  // namespace periscope::testing
