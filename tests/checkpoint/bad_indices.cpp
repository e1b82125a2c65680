#include "tests/checkpoint/safetensors_bytes.h"

namespace periscope::testing {
namespace {

using namespace std::string_literals;

/// Returns an index that maps one tensor to `file`, a JSON-escaped name.
std::string mapping(const std::string& file) { return R"({"weight_map":{"t":")" + file + R"("}})"; }

const std::string no_folder = "expected a plain name without a folder";

}  // namespace

std::vector<TestFile> bad_indices() {
  return {
      {"empty", "", "the index is not JSON"},
      {"a Git LFS pointer", "version https://git-lfs.github.com/spec/v1\n", "Git LFS"},
      {"a list", "[]", "the index is of type array"},
      {"no weight_map", R"({"metadata":{}})", "weight_map"},
      {"a weight_map that is a list", R"({"weight_map":[]})", "weight_map is an array of length 0"},
      {"an empty weight_map", R"({"weight_map":{}})", "weight_map is an object of length 0"},
      {"a number as a file name", R"({"weight_map":{"t":1}})", "weight_map has a value of type number for \"t\""},
      {"a tensor twice", R"({"weight_map":{"t":"a.safetensors","t":"b.safetensors"}})", "the key \"t\" twice"},
      {"metadata that is a list", R"({"metadata":[],"weight_map":{"t":"a.safetensors"}})", "metadata is of type array"},
      {"an empty file name", mapping(""), no_folder},
      {"the folder itself", mapping("."), no_folder},
      {"the parent folder", mapping(".."), no_folder},
      {"a file in a subfolder", mapping("sub/a.safetensors"), no_folder},
      {"an absolute path", mapping("/etc/a.safetensors"), no_folder},
      {"an escaped slash", mapping("\\u002fetc\\u002fa.safetensors"), no_folder},
      {"a Windows path", mapping("..\\\\a.safetensors"), no_folder},
      {"a U+0000 character", mapping("a\\u0000.safetensors"), no_folder},
      {"a line break", mapping("a\\n.safetensors"), no_folder},
      {"a pickle", mapping("pytorch_model-00001-of-00002.bin"), "unsupported: index: weight_map places \"t\""},
      {"a zero byte at the end", mapping("a.safetensors") + "\0"s, "a zero byte"},
      {"deep nesting", std::string(100'000, '['), "nested more than 128 deep"},
  };
}

std::vector<TestFile> odd_indices() {
  return {
      {"a typical index", R"({"metadata":{"total_size":8},"weight_map":{"t":"model-00001-of-00001.safetensors"}})", ""},
      {"no metadata", mapping("a.safetensors"), ""},
      {"other metadata",
       R"({"metadata":{"total_size":8.0,"total_parameters":2,"other":[{}]},"weight_map":{"t":"a.safetensors"},"x":1})",
       ""},
      {"two dots within a name", mapping("a..b.safetensors"), ""},
      {"a hidden file", mapping(".safetensors"), ""},
      {"a name outside ASCII", mapping("\xc3\xbc.safetensors"), ""},
  };
}

}  // namespace periscope::testing
