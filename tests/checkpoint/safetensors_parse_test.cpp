#include "sim/base/error.h"
#include "sim/checkpoint/safetensors_view.h"
#include "sim/checkpoint/tensor_files.h"
#include "tests/checkpoint/safetensors_bytes.h"
#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

/// Returns the message of the InputError, or "accepted".
template <typename Parse>
std::string rejection(Parse parse, const std::string& bytes, const char* path) {
  try {
    static_cast<void>(parse(bytes_of(bytes), path));
    return "accepted";
  } catch (const InputError& error) {
    return error.what();
  }
}

template <typename Parse>
void check_rejected(Parse parse, const std::vector<TestFile>& files, const char* path) {
  for (const TestFile& file : files) {
    CAPTURE(file.name);
    const std::string message = rejection(parse, file.bytes, path);
    CAPTURE(message);
    CHECK(message.find(file.expected) != std::string::npos);
    CHECK((message.starts_with("malformed: ") || message.starts_with("unsupported: ")));
    CHECK(message.find('\n') == std::string::npos);
    CHECK(message.size() < 600);
  }
}

TEST_CASE("bad files are rejected with the reason") { check_rejected(parse_safetensors, bad_safetensors(), "bad"); }

TEST_CASE("unusual but valid files are accepted") {
  for (const TestFile& file : odd_safetensors()) {
    CAPTURE(file.name);
    CHECK(rejection(parse_safetensors, file.bytes, "odd") == "accepted");
  }
}

TEST_CASE("every truncation of a valid file is malformed") {
  for (const TestFile& file : odd_safetensors()) {
    for (std::size_t length = 0; length < file.bytes.size(); ++length) {
      INFO("file.name := ", file.name, ", length := ", length);
      CHECK(rejection(parse_safetensors, file.bytes.substr(0, length), "cut").starts_with("malformed: cut: "));
    }
  }
}

TEST_CASE("bad index files are rejected, unusual index files are accepted") {
  check_rejected(parse_tensor_index, bad_indices(), "index");
  for (const TestFile& file : odd_indices()) {
    CAPTURE(file.name);
    CHECK(rejection(parse_tensor_index, file.bytes, "index") == "accepted");
  }
}

TEST_CASE("types, shapes, offsets and metadata are parsed") {
  const std::string bytes = safetensors_bytes(
      R"({"__metadata__":{"format":"pt","":"\n"},"b":{"dtype":"I16","shape":[2,1],"data_offsets":[1,5]},)"
      R"("a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})",
      "\x01\x02\x03\x04\x05");
  const SafetensorsContents contents = parse_safetensors(bytes_of(bytes), "file");
  CHECK(contents.metadata == std::map<std::string, std::string>{{"format", "pt"}, {"", "\n"}});
  REQUIRE(contents.tensors.size() == 2);
  const SafetensorsView& b = contents.tensors.at("b");
  CHECK(b.type == SafetensorsType::i16);
  CHECK(b.shape == std::vector<std::int64_t>{2, 1});
  CHECK(count_of(b) == 2);
  CHECK(b.bytes.data() == bytes_of(bytes).data() + bytes.size() - 4);
  CHECK(b.bytes.size() == 4);
  CHECK(contents.tensors.at("a").shape.empty());
  CHECK(count_of(contents.tensors.at("a")) == 1);
}

TEST_CASE("an index maps tensors to files and states the total size") {
  const TensorIndex index = parse_tensor_index(
      bytes_of(R"({"metadata":{"total_size":12},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})"), "index");
  CHECK(index.weight_map == std::map<std::string, std::string>{{"a", "1.safetensors"}, {"b", "2.safetensors"}});
  CHECK(index.total_size == 12);
  CHECK(index.warnings.empty());
  const TensorIndex odd =
      parse_tensor_index(bytes_of(R"({"metadata":{"total_size":12.5},"weight_map":{"a":"1.safetensors"}})"), "index");
  CHECK(!odd.total_size);
  REQUIRE(odd.warnings.size() == 1);
  CHECK(odd.warnings[0].find("total_size") != std::string::npos);
}

}  // namespace
}  // namespace periscope::testing
