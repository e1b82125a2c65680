#include "tests/checkpoint/safetensors_bytes.h"

namespace periscope::testing {
namespace {

using namespace std::string_literals;

std::string file(const std::string& header, std::size_t data = 0) {
  return safetensors_bytes(header, std::string(data, '\x01'));
}

/// A file with one tensor "t" with these fields.
std::string one(const std::string& fields, std::size_t data) { return file(R"({"t":{)" + fields + "}}", data); }

/// A file with one F32 tensor "t".
std::string f32(const std::string& shape, const std::string& offsets, std::size_t data) {
  return one(R"("dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets, data);
}

/// A file with U8 vectors a, b, c, … at these offsets.
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

std::vector<MadeFile> bad_safetensors() {
  return {
      // -- the lengths ------------------------------------------------------------------------------
      {"empty", "", "malformed: bad: 0 bytes, expected the header's length in the first 8"},
      {"seven bytes", "\x02\x00\x00\x00\x00\x00\x00"s, "malformed: bad: 7 bytes"},
      {"a length and nothing else", length_bytes(2), "header has 2 bytes, but only 0 follow"},
      {"a header of no bytes", length_bytes(0), "the header is not JSON: at its end"},
      {"a header longer than the file", length_bytes(3) + "{}", "header has 3 bytes, but only 2 follow"},
      {"a length that wraps with the 8 bytes", length_bytes(~0ULL - 7) + "{}", "expected at most 100000000"},
      {"the largest length", length_bytes(~0ULL) + "{}", "18446744073709551615 bytes, expected at most 100000000"},
      {"just the limit", length_bytes(100'000'000) + "{}", "header has 100000000 bytes, but only 2 follow"},
      {"one byte above the limit", length_bytes(100'000'001) + "{}", "100000001 bytes, expected at most 100000000"},
      {"a length in the wrong byte order", "\x00\x00\x00\x00\x00\x00\x00\x02{}"s, "expected at most 100000000"},
      {"text instead of a length", R"({"t":{"dtype":"F32"}})", "expected at most 100000000"},
      // -- other formats ----------------------------------------------------------------------------
      {"a Git LFS pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
       "malformed: bad: this is a Git LFS pointer, not the file: run git lfs pull"},
      {"a pickle in a zip archive", "PK\x03\x04\x00\x00\x08\x08\x00\x00 archive/data.pkl"s,
       "unsupported: bad: this is a zip archive, as PyTorch writes its pickles"},
      {"a bare pickle", "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8"s, "unsupported: bad: this is a pickle"},
      {"GGUF", "GGUF\x03\x00\x00\x00\x23\x01\x00\x00"s, "unsupported: bad: this is a GGUF file"},
      {"HDF5", "\x89HDF\r\n\x1a\n\x00\x00\x00\x00"s, "unsupported: bad: this is an HDF5 file"},
      {"an error page", "<!DOCTYPE html><html>404</html>", "unsupported: bad: this is a web page"},
      // -- JSON -------------------------------------------------------------------------------------
      {"no JSON", file("{\"t\""), "the header is not JSON: at its end, byte 4"},
      {"a list", file("[]"), "the header is an array of 0, expected an object"},
      {"a string", file(R"("t")"), "the header is \"t\", expected an object"},
      {"null", file("null"), "the header is null, expected an object"},
      {"a second value", file("{}{}"), "not JSON: at byte 2"},
      {"a zero byte after the object", file("{}\0"s), "a zero byte at byte 2"},
      {"text hidden behind a zero byte", file("{}\0{\"t\":1}"s), "a zero byte at byte 2"},
      {"a byte-order mark", file("\xef\xbb\xbf{}"), "begins with a byte-order mark"},
      {"a comment", file("{} // comment"), "not JSON"},
      {"a comma too many", file("{\"t\":{" + fields + "},}", 8), "not JSON"},
      {"single quotes", file("{'t':{}}"), "not JSON"},
      {"a byte that is not UTF-8", file("{\"\xff\":{" + fields + "}}", 8), "not JSON"},
      {"an overlong UTF-8 sequence", file("{\"\xc0\xaf\":{" + fields + "}}", 8), "not JSON"},
      {"a surrogate in UTF-8", file("{\"\xed\xa0\x80\":{" + fields + "}}", 8), "not JSON"},
      {"half a surrogate pair", file(R"({"\ud800":{)" + fields + "}}", 8), "not JSON"},
      {"a control character in a name", file("{\"a\nb\":{" + fields + "}}", 8), "not JSON"},
      {"white space that JSON has not", file("\v{}"), "not JSON"},
      {"UTF-16", file("{\0}\0"s), "a zero byte"},
      {"a number beyond double", f32("[1e999]", "[0,8]", 8), "a number beyond the range of double"},
      {"a thousand brackets", file(nested("[", 1000)), "nested more than 128 deep"},
      {"a million brackets", file(nested("[", 1'000'000)), "nested more than 128 deep"},
      {"a hundred thousand objects", file(nested("{\"t\":", 100'000)), "nested more than 128 deep"},
      {"129 brackets where a shape should be", f32(nested("[", 129) + nested("]", 129), "[0,8]", 8),
       "nested more than"},
      // -- keys -------------------------------------------------------------------------------------
      {"one tensor twice, the same", file("{\"t\":{" + fields + "},\"t\":{" + fields + "}}", 8),
       "the key \"t\" twice in one object"},
      {"one name twice, once by an escape", file("{\"t\":{" + fields + "},\"\\u0074\":{" + fields + "}}", 8),
       "the key \"t\" twice"},
      {"two tensors of one name",
       file("{\"t\":{" + fields + R"(},"t":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})", 8),
       "the key \"t\" twice"},
      {"dtype twice", one(R"("dtype":"F32",)" + fields, 8), "the key \"dtype\" twice"},
      {"shape twice", one(fields + R"(,"shape":[2])", 8), "the key \"shape\" twice"},
      {"data_offsets twice", one(fields + R"(,"data_offsets":[0,8])", 8), "the key \"data_offsets\" twice"},
      {"__metadata__ twice", file(R"({"__metadata__":{},"__metadata__":{}})"), "the key \"__metadata__\" twice"},
      {"a key of the metadata twice", file(R"({"__metadata__":{"a":"1","a":"2"}})"), "the key \"a\" twice"},
      {"a field that the format has not", one(fields + R"(,"strides":[1])", 8),
       "tensor \"t\" has the field \"strides\", expected only dtype, shape and data_offsets"},
      {"no dtype", one(R"("shape":[2],"data_offsets":[0,8])", 8), "tensor \"t\" has no dtype"},
      {"no shape", one(R"("dtype":"F32","data_offsets":[0,8])", 8), "tensor \"t\" has no shape"},
      {"no data_offsets", one(R"("dtype":"F32","shape":[2])", 8), "tensor \"t\" has no data_offsets"},
      {"another capital", one(R"("Dtype":"F32","shape":[2],"data_offsets":[0,8])", 8), "tensor \"t\" has no dtype"},
      {"metadata in capitals", file(R"({"__METADATA__":{"a":"b"}})"), "has no dtype"},
      // -- the kinds of values ----------------------------------------------------------------------
      {"an entry that is a list", file(R"({"t":["F32",[2],[0,8]]})", 8),
       "tensor \"t\" is an array of 3, expected an object"},
      {"an entry that is null", file(R"({"t":null})"), "tensor \"t\" is null, expected an object"},
      {"an unknown dtype", one(R"("dtype":"F128","shape":[1],"data_offsets":[0,16])", 16),
       "tensor \"t\" has the dtype \"F128\", expected one of F64, F32,"},
      {"a dtype in small letters", one(R"("dtype":"f32","shape":[2],"data_offsets":[0,8])", 8),
       "has the dtype \"f32\""},
      {"a dtype that is a number", one(R"("dtype":32,"shape":[2],"data_offsets":[0,8])", 8), "has the dtype 32"},
      {"a dtype with terminal codes", one(R"("dtype":"\u001b[2J\n","shape":[2],"data_offsets":[0,8])", 8),
       R"(has the dtype "\x1b[2J\x0a")"},
      {"a shape that is a number", f32("2", "[0,8]", 8), "has the shape 2, expected an array"},
      {"a shape that is null", f32("null", "[0,8]", 8), "has the shape null, expected an array"},
      {"a length of 2.0", f32("[2.0]", "[0,8]", 8), "a length in its shape that is 2.0, expected a whole number"},
      {"a length of 2e0", f32("[2e0]", "[0,8]", 8), "a length in its shape that is 2.0"},
      {"a negative length", f32("[-2]", "[0,8]", 8), "a length in its shape that is -2, expected a whole number"},
      {"two negative lengths", f32("[-1,-2]", "[0,8]", 8), "a length in its shape that is -1"},
      {"a length of -0", f32("[-0]", "[0,0]", 0), "a length in its shape that is 0, expected a whole number"},
      {"a length of true", f32("[true]", "[0,4]", 4), "a length in its shape that is true"},
      {"a length in quotes", f32("[\"2\"]", "[0,8]", 8), "a length in its shape that is \"2\""},
      {"a length of 2^64", f32("[" + two_to_64 + "]", "[0,0]", 0),
       "a length in its shape that is 1.8446744073709552e+19"},
      {"no offsets", f32("[2]", "[]", 8), "has the data_offsets an array of 0, expected an array of 2"},
      {"one offset", f32("[2]", "[8]", 8), "has the data_offsets an array of 1, expected an array of 2"},
      {"three offsets", f32("[2]", "[0,8,16]", 8), "has the data_offsets an array of 3, expected an array of 2"},
      {"offsets in an object", f32("[2]", R"({"begin":0,"end":8})", 8), "has the data_offsets an object of 2"},
      {"an offset of 8.0", f32("[2]", "[0,8.0]", 8), "a data offset that is 8.0, expected a whole number"},
      {"a negative offset", f32("[2]", "[-8,0]", 8), "a data offset that is -8"},
      {"an offset of 2^64", f32("[2]", "[0," + two_to_64 + "]", 8), "a data offset that is 1.8446744073709552e+19"},
      {"metadata that is a list", file(R"({"__metadata__":[]})"), "__metadata__ is an array of 0, expected an object"},
      {"metadata that is null", file(R"({"__metadata__":null})"), "__metadata__ is null, expected an object"},
      {"metadata with a number", file(R"({"__metadata__":{"a":1}})"),
       "__metadata__ has 1 for \"a\", expected a string"},
      {"metadata with an object", file(R"({"__metadata__":{"a":{"b":"c"}}})"),
       "__metadata__ has an object of 1 for \"a\""},
      {"a tensor called __metadata__", file("{\"__metadata__\":{" + fields + "}}", 8),
       "__metadata__ has an array of 2"},
      // -- offsets (holes, overlaps and sizes: safetensors_property_test) --------------------------
      {"an end before the beginning",
       file(
           R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})",
           4),
       "tensor \"b\" ends at byte 0 of the data, before it begins at 4"},
      {"an empty tensor beyond the data", several({{0, 4}, {8, 8}}, 4), "begins at byte 8 of the data, expected 4"},
      {"no data", f32("[2]", "[0,8]", 0), "has only 0"},
      {"data without a tensor", file("{}", 1), "1 bytes of data, but the tensors end at 0"},
      {"an archive appended", file("{}") + "PK\x03\x04", "4 bytes of data, but the tensors end at 0"},
      // -- sizes ------------------------------------------------------------------------------------
      {"a single number with too many bytes", f32("[]", "[0,8]", 8), "has 8 bytes, but its shape and F32 need 4"},
      {"an empty shape with bytes", f32("[0]", "[0,8]", 8), "has 8 bytes, but its shape and F32 need 0"},
      {"a product that wraps to 2", f32("[4294967297,4294967298]", "[0,8]", 8),
       "a shape whose product exceeds 64 bits"},
      {"a product that wraps to 0", f32("[4294967296,4294967296]", "[0,0]", 0),
       "a shape whose product exceeds 64 bits"},
      {"a product that overflows before a 0", f32("[" + two_to_63 + ",4,0]", "[0,0]", 0),
       "a shape whose product exceeds 64 bits"},
      {"bytes that wrap to 0", f32("[4611686018427387904]", "[0,0]", 0), "a shape whose bits exceed 64 bits"},
      {"bits that wrap to 32", f32("[576460752303423489]", "[0,4]", 4), "a shape whose bits exceed 64 bits"},
      {"half a byte", one(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])", 2), "has 12 bits, expected whole bytes"},
      {"six bits", one(R"("dtype":"F6_E2M3","shape":[1],"data_offsets":[0,1])", 1), "has 6 bits, expected whole bytes"},
      {"a length that no signed number holds", f32("[" + two_to_63 + ",0]", "[0,0]", 0),
       "unsupported: bad: tensor \"t\" has a length of 2^63 or more"},
  };
}

std::vector<MadeFile> odd_safetensors() {
  return {
      {"no tensors", file("{}"), ""},
      {"only metadata", file(R"({"__metadata__":{"format":"pt"}})"), ""},
      {"white space before and after", file(" \n\t\r{} \n\t\r"), ""},
      {"a single number", f32("[]", "[0,4]", 4), ""},
      {"no elements", f32("[0]", "[0,0]", 0), ""},
      {"no elements in many rows", f32("[9223372036854775807,0]", "[0,0]", 0), ""},
      {"zeros before a huge length", f32("[0,9223372036854775807,9223372036854775807]", "[0,0]", 0), ""},
      {"a name of no letters", file(R"({"":{)" + fields + "}}", 8), ""},
      {"a name with a zero character", file(R"({"a\u0000b":{)" + fields + "}}", 8), ""},
      {"a name beyond ASCII", file("{\"\xc3\xbc\xf0\x9f\x8c\x8d\":{" + fields + "}}", 8), ""},
      {"a name like a path", file(R"({"../../etc/passwd":{)" + fields + "}}", 8), ""},
      {"empty tensors between others", several({{0, 0}, {0, 2}, {2, 2}, {2, 3}, {3, 3}, {3, 3}}, 3), ""},
      {"names in another order than the data", several({{4, 6}, {0, 1}, {1, 4}}, 6), ""},
      {"data that is not aligned",
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
      {"fields in another order", one(R"("data_offsets":[0,8],"shape":[2],"dtype":"F32")", 8), ""},
  };
}

}  // namespace periscope::testing
