#include "tests/checkpoint/safetensors_bytes.h"

namespace periscope::testing {
namespace {

using namespace std::string_literals;

/// An index that maps one tensor to `file`, in JSON escapes.
std::string mapping(const std::string& file) { return R"({"weight_map":{"t":")" + file + R"("}})"; }

const std::string no_folder = "expected a plain name without a folder";

}  // namespace

std::vector<MadeFile> bad_indices() {
  return {
      {"nothing", "", "the index is not JSON"},
      {"a Git LFS pointer", "version https://git-lfs.github.com/spec/v1\n", "run git lfs pull"},
      {"a web page", "<!DOCTYPE html>", "this is a web page"},
      {"a list", "[]", "the index is of type array, expected an object"},
      {"no weight_map", R"({"metadata":{}})", "weight_map"},
      {"a weight_map that is a list", R"({"weight_map":[]})", "weight_map is an array of 0, expected an object"},
      {"an empty weight_map", R"({"weight_map":{}})", "weight_map is an object of 0"},
      {"a number for a file", R"({"weight_map":{"t":1}})", "weight_map has a value of type number for \"t\""},
      {"a list of files", R"({"weight_map":{"t":["a.safetensors"]}})", "a value of type array for \"t\""},
      {"a tensor twice", R"({"weight_map":{"t":"a.safetensors","t":"b.safetensors"}})", "the key \"t\" twice"},
      {"two weight_maps", R"({"weight_map":{"t":"a.safetensors"},"weight_map":{"t":"b.safetensors"}})",
       "the key \"weight_map\" twice"},
      {"total_size twice", R"({"metadata":{"total_size":1,"total_size":2},"weight_map":{"t":"a.safetensors"}})",
       "the key \"total_size\" twice"},
      {"metadata that is a list", R"({"metadata":[],"weight_map":{"t":"a.safetensors"}})", "metadata is of type array"},
      {"an empty file name", mapping(""), no_folder},
      {"the folder itself", mapping("."), no_folder},
      {"the folder above", mapping(".."), no_folder},
      {"a file above", mapping("../a.safetensors"), no_folder},
      {"a folder within", mapping("sub/a.safetensors"), no_folder},
      {"an absolute path", mapping("/etc/a.safetensors"), no_folder},
      {"a path with an escaped slash", mapping("\\u002fetc\\u002fa.safetensors"), no_folder},
      {"a path of Windows", mapping("..\\\\a.safetensors"), no_folder},
      {"a zero character", mapping("../../etc/passwd\\u0000.safetensors"), no_folder},
      {"a zero character in a plain name", mapping("a\\u0000.safetensors"), no_folder},
      {"a line break", mapping("a\\n.safetensors"), no_folder},
      {"a pickle", mapping("pytorch_model-00001-of-00002.bin"), "unsupported: index: weight_map has \"t\" in the file"},
      {"a zero byte at the end", mapping("a.safetensors") + "\0"s, "a zero byte"},
      {"nested deeply", std::string(100'000, '['), "nested more than 128 deep"},
  };
}

std::vector<MadeFile> odd_indices() {
  return {
      {"a usual one", R"({"metadata":{"total_size":8},"weight_map":{"t":"model-00001-of-00001.safetensors"}})", ""},
      {"no metadata", mapping("a.safetensors"), ""},
      {"metadata of other kinds",
       R"({"metadata":{"total_size":8.0,"total_parameters":2,"other":[{}]},"weight_map":{"t":"a.safetensors"},"x":1})",
       ""},
      {"two dots within a name", mapping("a..b.safetensors"), ""},
      {"a hidden file", mapping(".safetensors"), ""},
      {"a name beyond ASCII", mapping("\xc3\xbc.safetensors"), ""},
  };
}

}  // namespace periscope::testing
