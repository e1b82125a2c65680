#include "sim/checkpoint/safetensors_writer.h"

#include "tests/support/doctest.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "sim/base/error.h"
#include "tests/support/temporary_folder.h"

namespace periscope::testing {
namespace {

using Values = std::vector<double>;
using Integers = std::vector<std::int64_t>;

struct TemporaryFile {
  TemporaryFolder folder;
  [[nodiscard]] std::string name() const { return folder.path("a.safetensors"); }
  [[nodiscard]] std::string bytes() const { return bytes_of_file(name()); }
};

const std::vector<SafetensorsEntry> entries{{"matrix", SafetensorsType::f64, {2, 3}},
                                            {"ids", SafetensorsType::i64, {2}},
                                            {"nothing", SafetensorsType::f64, {0, 5}},
                                            {"scalar", SafetensorsType::f64, {}}};
const Values matrix{0.1, -2.0, 3.0, 4.0, 1e300, -0.0};
const Integers ids{-1, 1LL << 40};

TEST_CASE("tensors written out of order are stored in the order of the entries") {
  const TemporaryFile file;
  SafetensorsWriter writer(file.name(), entries);
  writer.put("scalar", Values{7.0});
  writer.put("ids", ids);
  writer.put("nothing", Values{});
  writer.put("matrix", matrix);
  writer.close();

  const std::string bytes = file.bytes();
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  CHECK(length % 8 == 0);
  REQUIRE(bytes.size() == 8 + length + 8 * (6 + 2 + 0 + 1));
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  CHECK(header.size() == 4);
  CHECK(header["matrix"] == nlohmann::json::parse(R"({"dtype":"F64","shape":[2,3],"data_offsets":[0,48]})"));
  CHECK(header["ids"] == nlohmann::json::parse(R"({"dtype":"I64","shape":[2],"data_offsets":[48,64]})"));
  CHECK(header["nothing"] == nlohmann::json::parse(R"({"dtype":"F64","shape":[0,5],"data_offsets":[64,64]})"));
  CHECK(header["scalar"] == nlohmann::json::parse(R"({"dtype":"F64","shape":[],"data_offsets":[64,72]})"));
  const std::string_view written(reinterpret_cast<const char*>(matrix.data()), 48);
  CHECK(bytes.substr(8 + length, 48) == written);
  CHECK(std::memcmp(bytes.data() + 8 + length + 48, ids.data(), 16) == 0);
}

TEST_CASE("the header is padded to a multiple of 8 whatever its length") {
  for (std::size_t i = 1; i <= 9; ++i) {
    const TemporaryFile file;
    SafetensorsWriter writer(file.name(), {{std::string(i, 'x'), SafetensorsType::f64, {1}}});
    writer.put(std::string(i, 'x'), Values{1.0});
    writer.close();
    CHECK(file.bytes().size() % 8 == 0);
  }
}

TEST_CASE("writing a tensor that contradicts the header throws") {
  const TemporaryFile file;
  SafetensorsWriter writer(file.name(), entries);
  CHECK_THROWS_AS(writer.put("other", Values{1.0}), std::logic_error);
  CHECK_THROWS_AS(writer.put("matrix", Values(5, 0.0)), std::logic_error);
  CHECK_THROWS_AS(writer.put("matrix", Integers(6, 0)), std::logic_error);
  writer.put("matrix", matrix);
  CHECK_THROWS_AS(writer.put("matrix", matrix), std::logic_error);
  CHECK_THROWS_AS(writer.close(), std::logic_error);  // other tensors are missing
  CHECK_THROWS_AS(writer.put("ids", Values(2, 0.0)), std::logic_error);
  CHECK_THROWS_AS(writer.put("ids", std::vector<float>(4, 0.0F)), std::logic_error);
  CHECK_THROWS_AS(writer.put_bytes("ids", std::span<const std::byte>()), std::logic_error);
  CHECK_THROWS_AS(SafetensorsWriter(file.name(), {entries[0], entries[0]}), std::logic_error);
  CHECK_THROWS_AS(SafetensorsWriter(file.name(), {{"__metadata__", SafetensorsType::f64, {}}}), std::logic_error);
  CHECK_THROWS_AS(SafetensorsWriter(file.name(), {{"half", SafetensorsType::f4, {1}}}), std::logic_error);
}

TEST_CASE("an unwritable file throws an Error that names the file") {
  CHECK_THROWS_WITH_AS(SafetensorsWriter("/proc/at/all", {}), doctest::Contains("/proc/at/all"), Error);
}

}  // namespace
}  // namespace periscope::testing
