#include "experiments/engine/settings/sha256.h"

#include <string>

#include "tests/support/doctest.h"

namespace periscope {
namespace {

TEST_CASE("SHA-256 gives the standard's test vectors, and the same hash for text added in two pieces") {
  CHECK(config::sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(config::sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(config::sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(config::sha256_hex(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  const std::string text(200, 'x');
  for (std::size_t first = 0; first <= text.size(); ++first) {
    config::Sha256 hash;
    hash.add(text.data(), first);
    hash.add(text.data() + first, text.size() - first);
    CHECK(hash.hex() == config::sha256_hex(text));
  }
}

}  // namespace
}  // namespace periscope
