#include "sim/checkpoint/tensor_files.h"

#include "tests/support/doctest.h"

#include <filesystem>

#include "sim/base/error.h"
#include "tests/checkpoint/safetensors_bytes.h"
#include "tests/support/temporary_folder.h"

namespace periscope::testing {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

/// Returns a file with U8 tensors of one element, with values `first`, `first` + 1, …
std::string tensors(const Names& names, char first) {
  std::string header = "{";
  std::string data;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) header += ',';
    header += "\"" + names[i] + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" + std::to_string(i) + "," +
              std::to_string(i + 1) + "]}";
    data += static_cast<char>(first + static_cast<char>(i));
  }
  return safetensors_bytes(header + "}", data);
}

constexpr const char* index_name = "model.safetensors.index.json";
constexpr const char* two_shards =
    R"({"metadata":{"total_size":3},"weight_map":{"a":"1.safetensors","b":"1.safetensors","c":"2.safetensors"}})";

/// Writes two shards and their index to a folder.
void write_shards(const TemporaryFolder& folder, const std::string& subfolder = "") {
  folder.write(subfolder + index_name, two_shards);
  folder.write(subfolder + "1.safetensors", tensors({"a", "b"}, 1));
  folder.write(subfolder + "2.safetensors", tensors({"c"}, 3));
}

void check_rejected(const std::string& folder, const std::string& why) {
  CHECK_THROWS_WITH_AS(TensorFiles{folder}, doctest::Contains(why.c_str()), InputError);
}

TEST_CASE("tensors of a folder with one file are found and read") {
  const TemporaryFolder folder;
  const std::string path = folder.write("model.safetensors", tensors({"b", "a"}, 1));
  const TensorFiles files(folder.path());
  CHECK(files.folder() == folder.path());
  CHECK(files.names() == Names{"a", "b"});
  CHECK(files.contains("a"));
  CHECK(!files.contains("c"));
  CHECK(files.find("a").shape == std::vector<std::int64_t>{1});
  CHECK(files.file_of("a") == path);
  CHECK(files.values("a") == std::vector<double>{2.0});
  std::vector<float> one(1);
  files.read("b", 0, std::span(one));
  CHECK(one[0] == 1.0F);
  CHECK(files.warnings().empty());
  CHECK_THROWS_WITH_AS(static_cast<void>(files.find("aa")), doctest::Contains("nearest is \"a\""), InputError);
}

TEST_CASE("tensors of a folder with an index are read from their shards") {
  const TemporaryFolder folder;
  write_shards(folder);
  const TensorFiles files(folder.path());
  CHECK(files.names() == Names{"a", "b", "c"});
  CHECK(files.file_of("b") == folder.path("1.safetensors"));
  CHECK(files.file_of("c") == folder.path("2.safetensors"));
  CHECK(files.values("b") == std::vector<double>{2.0});
  CHECK(files.values("c") == std::vector<double>{3.0});
  CHECK(files.warnings().empty());
}

TEST_CASE("model.safetensors takes precedence over an index, with a warning") {
  const TemporaryFolder folder;
  write_shards(folder);
  folder.write("model.safetensors", tensors({"x"}, 1));
  const TensorFiles files(folder.path());
  CHECK(files.names() == Names{"x"});
  REQUIRE(files.warnings().size() == 1);
}

TEST_CASE("an unmapped tensor and a wrong total_size give warnings") {
  const TemporaryFolder folder;
  write_shards(folder);
  folder.write("2.safetensors", tensors({"c", "d"}, 3));
  const TensorFiles files(folder.path());
  CHECK(files.values("d") == std::vector<double>{4.0});
  REQUIRE(files.warnings().size() == 2);
  CHECK(files.warnings()[0].find("\"d\"") != std::string::npos);
  CHECK(files.warnings()[1].find("total_size") != std::string::npos);
}

TEST_CASE("a folder without tensors is rejected with the names of other files") {
  const TemporaryFolder folder;
  check_rejected(folder.path("missing"), "no such folder");
  check_rejected(folder.write("file", ""), "not a folder, expected a folder");
  check_rejected(folder.path(), "model.safetensors.index.json");
  folder.write("pytorch_model.bin", "");
  check_rejected(folder.path(), "neither; found \"pytorch_model.bin\"");
  folder.write("adapter_model.safetensors", "");
  check_rejected(folder.path(), "\"adapter_model.safetensors\"");
}

TEST_CASE("shards that contradict the index are rejected") {
  const TemporaryFolder folder;
  write_shards(folder);
  SUBCASE("a file is missing") {
    fs::remove(folder.path("2.safetensors"));
    check_rejected(folder.path(), "\"2.safetensors\"");
  }
  SUBCASE("a tensor is missing") {
    folder.write("2.safetensors", tensors({"d"}, 3));
    check_rejected(folder.path(), "\"c\" in \"2.safetensors\"");
  }
  SUBCASE("a tensor is in another file") {
    folder.write("1.safetensors", tensors({"a", "c"}, 1));
    folder.write("2.safetensors", tensors({"b"}, 1));
    check_rejected(folder.path(), "\"b\" in \"1.safetensors\"");
  }
  SUBCASE("a tensor is in two files") {
    folder.write("2.safetensors", tensors({"a", "c"}, 3));
    check_rejected(folder.path(), folder.path("2.safetensors") + ": tensor \"a\"");
  }
  SUBCASE("a file is a Git LFS pointer") {
    folder.write("2.safetensors", "version https://git-lfs.github.com/spec/v1\n");
    check_rejected(folder.path(), "malformed: " + folder.path("2.safetensors"));
  }
  SUBCASE("a file is a folder") {
    fs::remove(folder.path("2.safetensors"));
    fs::create_directory(folder.path("2.safetensors"));
    check_rejected(folder.path(), "expected a regular file, found a folder");
  }
  SUBCASE("the index is malformed") {
    folder.write(index_name, R"({"weight_map":{"a":"../1.safetensors"}})");
    check_rejected(folder.path(), "malformed: " + folder.path(index_name));
  }
}

TEST_CASE("links within the folder and in the Hugging Face cache are followed, other links are rejected") {
  const TemporaryFolder folder;
  write_shards(folder, "model/");
  const std::string shard = folder.path("model/2.safetensors");
  fs::remove(shard);
  SUBCASE("link to a file in the folder") {
    folder.write("model/there", tensors({"c"}, 3));
    fs::create_symlink("there", shard);
    CHECK(TensorFiles(folder.path("model")).values("c") == std::vector<double>{3.0});
  }
  SUBCASE("link to a file outside the folder") {
    folder.write("there", tensors({"c"}, 3));
    fs::create_symlink("../there", shard);
    check_rejected(folder.path("model"), "malformed: " + shard + ": link out of the folder");
  }
  SUBCASE("link to a folder with the same name prefix") {
    folder.write("model2/there", tensors({"c"}, 3));
    fs::create_symlink("../model2/there", shard);
    check_rejected(folder.path("model"), "link out of the folder");
  }
  SUBCASE("link to a missing file") {
    fs::create_symlink("nothing", shard);
    check_rejected(folder.path("model"), shard + ": cannot follow the link: No such file or directory");
  }
  SUBCASE("link from a snapshot to a blob of the Hugging Face cache") {
    fs::create_directories(folder.path("hub/snapshots"));
    fs::rename(folder.path("model"), folder.path("hub/snapshots/0123"));
    folder.write("hub/blobs/4567", tensors({"c"}, 3));
    fs::create_symlink("../../blobs/4567", folder.path("hub/snapshots/0123/2.safetensors"));
    CHECK(TensorFiles(folder.path("hub/snapshots/0123")).values("c") == std::vector<double>{3.0});
  }
}

}  // namespace
}  // namespace periscope::testing
