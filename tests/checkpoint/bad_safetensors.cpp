#include "tests/checkpoint/safetensors_bytes.h"

namespace periscope::testing {
namespace {

using namespace std::string_literals;

std::string file(const std::string& header, std::size_t data = 0) {
  return safetensors_bytes(header, std::string(data, '\x01'));
}

/// Returns a file with one tensor "t" that has these fields.
std::string one(const std::string& fields, std::size_t data) { return file(R"({"t":{)" + fields + "}}", data); }

/// Returns a file with one F32 tensor "t".
std::string f32(const std::string& shape, const std::string& offsets, std::size_t data) {
  return one(R"("dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets, data);
}

/// Returns a file with U8 vectors a, b, c, … at these offsets.
std::string several(const std::vector<std::pair<int, int>>& offsets, std::size_t data) {
  std::string header;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const auto [begin, end] = offsets[i];
    header += i == 0 ? "{\"" : ",\"";
    header += static_cast<char>('a' + i);
    header += R"(":{"dtype":"U8","shape":[)" + std::to_string(end - begin) + R"(],"data_offsets":[)" +
              std::to_string(begin) + "," + std::to_string(end) + "]}";
  }
  return file(header + "}", data);
}

const std::string fields = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
const std::string two_to_63 = "9223372036854775808";
const std::string two_to_64 = "18446744073709551616";

std::string nested(const std::string& open, int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  return text;
}

}  // namespace

std::vector<TestFile> bad_safetensors() {
  return {
      {"empty", "", "malformed: bad: 0 bytes"},
      {"seven bytes", "\x02\x00\x00\x00\x00\x00\x00"s, "malformed: bad: 7 bytes"},
      {"only a length", length_bytes(2), "header has 2 bytes"},
      {"a header longer than the file", length_bytes(3) + "{}", "header has 3 bytes"},
      {"a length that overflows when 8 is added", length_bytes(~0ULL - 7) + "{}", "at most 100000000"},
      {"the largest accepted length", length_bytes(100'000'000) + "{}", "header has 100000000 bytes, but only 2"},
      {"one byte above the largest accepted length", length_bytes(100'000'001) + "{}", "at most 100000000"},
      {"a Git LFS pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:00\n",
       "malformed: bad: this is a Git"},
      {"a zip archive", "PK\x03\x04\x00\x00\x08\x08\x00\x00 archive/data.pkl"s, "unsupported: bad: this is a zip"},
      {"a pickle", "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8"s, "unsupported: bad: this is a pickle"},
      {"GGUF", "GGUF\x03\x00\x00\x00\x23\x01\x00\x00"s, "unsupported: bad: this is a GGUF"},
      {"HDF5", "\x89HDF\r\n\x1a\n\x00\x00\x00\x00"s, "unsupported: bad: this is an HDF5"},
      {"an error page", "<!DOCTYPE html><html>404</html>", "unsupported: bad: this is a web page"},
      {"truncated JSON", file("{\"t\""), "not JSON: at its end, byte 4"},
      {"an array as header", file("[]"), "the header is an array of length 0"},
      {"two JSON values", file("{}{}"), "not JSON: at byte 2"},
      {"a zero byte after the object", file("{}\0"s), "a zero byte at byte 2"},
      {"a byte-order mark", file("\xef\xbb\xbf{}"), "byte-order mark"},
      {"a comment", file("{} // comment"), "not JSON"},
      {"an extra comma", file("{\"t\":{" + fields + "},}", 8), "not JSON"},
      {"a byte that is not UTF-8", file("{\"\xff\":{" + fields + "}}", 8), "not JSON"},
      {"half a surrogate pair", file(R"({"\ud800":{)" + fields + "}}", 8), "not JSON"},
      {"a number above the range of double", f32("[1e999]", "[0,8]", 8), "the range of double"},
      {"a million brackets", file(nested("[", 1'000'000)), "nested more than 128 deep"},
      {"129 brackets in a shape", f32(nested("[", 129) + nested("]", 129), "[0,8]", 8), "nested more than 128"},
      {"a tensor twice", file("{\"t\":{" + fields + "},\"t\":{" + fields + "}}", 8), "the key \"t\" twice"},
      {"a tensor twice, once escaped", file("{\"t\":{" + fields + "},\"\\u0074\":{" + fields + "}}", 8), "\"t\" twice"},
      {"dtype twice", one(R"("dtype":"F32",)" + fields, 8), "the key \"dtype\" twice"},
      {"a key of the metadata twice", file(R"({"__metadata__":{"a":"1","a":"2"}})"), "the key \"a\" twice"},
      {"an unknown field", one(fields + R"(,"strides":[1])", 8), "tensor \"t\" has the field \"strides\""},
      {"no dtype", one(R"("shape":[2],"data_offsets":[0,8])", 8), "tensor \"t\" has no dtype"},
      {"no shape", one(R"("dtype":"F32","data_offsets":[0,8])", 8), "tensor \"t\" has no shape"},
      {"no data_offsets", one(R"("dtype":"F32","shape":[2])", 8), "tensor \"t\" has no data_offsets"},
      {"an entry that is a list", file(R"({"t":["F32",[2],[0,8]]})", 8), "tensor \"t\" is an array of length 3"},
      {"an unknown dtype", one(R"("dtype":"F128","shape":[1],"data_offsets":[0,16])", 16), "the dtype \"F128\""},
      {"a dtype that is a number", one(R"("dtype":32,"shape":[2],"data_offsets":[0,8])", 8), "has the dtype 32"},
      {"a dtype with terminal codes", one(R"("dtype":"\u001b[2J\n","shape":[2],"data_offsets":[0,8])", 8),
       R"(has the dtype "\x1b[2J\x0a")"},
      {"a shape that is a number", f32("2", "[0,8]", 8), "has the shape 2"},
      {"a length of 2.0", f32("[2.0]", "[0,8]", 8), "a length in its shape that is 2.0"},
      {"a negative length", f32("[-2]", "[0,8]", 8), "a length in its shape that is -2"},
      {"a length of -0", f32("[-0]", "[0,0]", 0), "a length in its shape that is 0"},
      {"a length of true", f32("[true]", "[0,4]", 4), "a length in its shape that is true"},
      {"a length of 2^64", f32("[" + two_to_64 + "]", "[0,0]", 0), "a length in its shape that is 1.84"},
      {"no offsets", f32("[2]", "[]", 8), "has an array of length 0 as data_offsets"},
      {"three offsets", f32("[2]", "[0,8,16]", 8), "has an array of length 3 as data_offsets"},
      {"an offset of 8.0", f32("[2]", "[0,8.0]", 8), "a data offset that is 8.0"},
      {"a negative offset", f32("[2]", "[-8,0]", 8), "a data offset that is -8"},
      {"metadata that is a list", file(R"({"__metadata__":[]})"), "__metadata__ is an array of length 0"},
      {"metadata with a number", file(R"({"__metadata__":{"a":1}})"), "__metadata__ has 1 for \"a\""},
      {"a tensor named __metadata__", file("{\"__metadata__\":{" + fields + "}}", 8),
       "__metadata__ has an array of length 2"},
      // -- offsets (safetensors_property_test covers holes, overlaps and sizes) ---------------------
      {"an end before the beginning",
       file(
           R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})",
           4),
       "tensor \"b\" ends at byte 0"},
      {"overlapping tensors", several({{0, 4}, {2, 6}}, 6), "begins at byte 2 of the data, expected 4"},
      {"an empty tensor after the end", several({{0, 4}, {8, 8}}, 4), "begins at byte 8 of the data"},
      {"no data", f32("[2]", "[0,8]", 0), "has only 0"},
      {"data without a tensor", file("{}", 1), "1 bytes of data"},
      {"a scalar with 8 bytes", f32("[]", "[0,8]", 8), "has 8 bytes, but its shape and F32 need 4"},
      {"a product that overflows to 2", f32("[4294967297,4294967298]", "[0,8]", 8), "product exceeds 64 bits"},
      {"a product that overflows before a 0", f32("[" + two_to_63 + ",4,0]", "[0,0]", 0), "product exceeds 64 bits"},
      {"a number of bytes that overflows to 0", f32("[4611686018427387904]", "[0,0]", 0), "bits exceed 64 bits"},
      {"a number of bits that overflows to 32", f32("[576460752303423489]", "[0,4]", 4), "bits exceed 64 bits"},
      {"a size that ends within a byte", one(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])", 2), "has 12 bits"},
      {"a length above int64", f32("[" + two_to_63 + ",0]", "[0,0]", 0), "unsupported: bad: tensor \"t\""},
  };
}

std::vector<TestFile> odd_safetensors() {
  return {
      {"no tensors", file("{}"), ""},
      {"only metadata", file(R"({"__metadata__":{"format":"pt"}})"), ""},
      {"white space before and after", file(" \n\t\r{} \n\t\r"), ""},
      {"a scalar", f32("[]", "[0,4]", 4), ""},
      {"no elements", f32("[0]", "[0,0]", 0), ""},
      {"no elements in 2^63 − 1 rows", f32("[9223372036854775807,0]", "[0,0]", 0), ""},
      {"zeros before a huge length", f32("[0,9223372036854775807,9223372036854775807]", "[0,0]", 0), ""},
      {"an empty name", file(R"({"":{)" + fields + "}}", 8), ""},
      {"a name with a U+0000 character", file(R"({"a\u0000b":{)" + fields + "}}", 8), ""},
      {"a name outside ASCII", file("{\"\xc3\xbc\xf0\x9f\x8c\x8d\":{" + fields + "}}", 8), ""},
      {"a name like a path", file(R"({"../../etc/passwd":{)" + fields + "}}", 8), ""},
      {"empty tensors between others", several({{0, 0}, {0, 2}, {2, 2}, {2, 3}, {3, 3}, {3, 3}}, 3), ""},
      {"names and data in different orders", several({{4, 6}, {0, 1}, {1, 4}}, 6), ""},
      {"unaligned data",
       file(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{)"
            R"("dtype":"F64","shape":[1],"data_offsets":[1,9]}})",
            9),
       ""},
      {"an unaligned header", file(R"({"t":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}   )", 8), ""},
      {"types of 4 and 6 bits",
       file(R"({"a":{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]},"b":{"dtype":"F6_E3M2",)"
            R"("shape":[4],"data_offsets":[3,6]}})",
            6),
       ""},
      {"fields in a different order", one(R"("data_offsets":[0,8],"shape":[2],"dtype":"F32")", 8), ""},
  };
}

}  // namespace periscope::testing
