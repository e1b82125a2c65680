#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "sim/spec/read_keys.h"

namespace periscope {

/// Number of tensors and values in the files. Bounds allocations, because config.json may claim any size.
struct StoredCounts {
  std::uint64_t tensors = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t numbers = std::numeric_limits<std::uint64_t>::max();  ///< total number of values
};

/// A key that no public implementation reads, with the values for which ignoring the key is correct.
struct InertKey {
  std::string_view key;           ///< "unsloth_*" means every key with this prefix
  std::string_view values = {};   ///< JSON list of accepted values; empty means any value
  std::string_view same_as = {};  ///< name of a second key, whose value or default this key must equal
};

/// Reads one object of a checkpoint's config.json. Every key must be read, or be checked with must_be, or be declared
/// harmless or inert. finish() rejects all other keys by name. Null is an invalid value, because the public
/// implementations fail on it; exceptions are null_is_absent and functions with a documented meaning of null. Errors
/// are InputError with file, key, found value and expected value.
class ConfigReader {
 public:
  /// `prefix`, such as "text_config.", precedes keys in messages. Throws InputError unless `object` is an object.
  ConfigReader(nlohmann::json object, std::string path, std::string prefix = "");

  /// Sets upper bounds on the sizes in this object and in nested objects. By default there are no bounds.
  void set_counts(const StoredCounts& counts) { counts_ = counts; }
  [[nodiscard]] const StoredCounts& counts() const { return counts_; }
  /// Makes finish() accept these keys if they are unknown ("text_config.x" in a nested object). Reading an ignored key
  /// throws ConfigError, and so does finish() if the key's value is known to change the function.
  void ignore(std::span<const std::string> keys);
  /// Throws ConfigError, with the nearest key, if an ignored key is in no object on which finish() was called.
  void require_ignored() const;
  /// True if the key is present and not null.
  [[nodiscard]] bool has(std::string_view key) const;
  /// Treats null as absent for this key, as the family's public implementation does.
  void null_is_absent(std::string_view key) { null_is_absent_.emplace(key); }
  /// True if the key is present. A null value counts as absent for keys passed to null_is_absent.
  [[nodiscard]] bool is_given(std::string_view key) const;

  /// Reads an integer from `min` to `max`.
  [[nodiscard]] int integer(std::string_view key, int max, int min = 1);
  [[nodiscard]] int integer_or(std::string_view key, int fallback, int max, int min = 1);
  /// Reads a finite number above 0.
  [[nodiscard]] double positive(std::string_view key);
  [[nodiscard]] double positive_or(std::string_view key, double fallback);
  /// Reads a list of finite numbers above 0.
  [[nodiscard]] std::vector<double> positives(std::string_view key);
  [[nodiscard]] bool flag_or(std::string_view key, bool fallback);
  [[nodiscard]] std::string text(std::string_view key);
  [[nodiscard]] std::string text_or(std::string_view key, std::string_view fallback);
  [[nodiscard]] std::vector<std::string> texts(std::string_view key);
  /// Reads a key and returns true; leaves `target` unchanged and returns false if the key is absent.
  template <class T>
  bool read(std::string_view key, T& target) {
    static_cast<void>(find(key));
    if (!is_given(key)) return false;
    if (const std::string expected = take(*stored(key), target); !expected.empty()) fail(key, expected);
    return true;
  }
  /// Returns the value of a key and marks it as read; nullptr if absent or null. Throws ConfigError for an ignored key.
  const nlohmann::json* find(std::string_view key);
  /// Returns a reader of a nested object, which needs a separate call of finish().
  [[nodiscard]] ConfigReader table(std::string_view key);
  /// Returns readers of the objects in a list; empty if the key is absent.
  [[nodiscard]] std::vector<ConfigReader> tables(std::string_view key, std::string_view expected);
  [[nodiscard]] bool same_as(const ConfigReader& other) const { return object_ == other.object_; }

  /// Reads an integer from 1 to `max`. Null gives nullopt; only an absent key gives the fallback.
  [[nodiscard]] std::optional<int> integer_or_none(std::string_view key, std::optional<int> fallback, int max);
  [[nodiscard]] std::optional<double> positive_or_none(std::string_view key, std::optional<double> fallback);

  /// Requires an absent key, null, or `expected`. Null counts as false, so it is rejected if `expected` is true.
  void must_be(std::string_view key, const nlohmann::json& expected);
  void harmless(std::span<const std::string_view> keys) { accepted_.insert(keys.begin(), keys.end()); }
  void harmless(std::initializer_list<std::string_view> keys) { harmless(std::span(keys.begin(), keys.size())); }
  /// Sets keys that finish() accepts although they are not read. `rows` must outlive this object.
  void inert(std::span<const InertKey> rows) { inert_ = rows; }

  /// Rejects keys that were not read, unless they are null, ignored, or inert with an accepted value.
  void finish() const;

  /// Returns the error "unsupported: PATH: key K = FOUND: expected EXPECTED".
  [[nodiscard]] InputError unsupported_value(std::string_view key, std::string_view expected) const;
  /// Returns the error "malformed: …", for values that no valid file has.
  [[nodiscard]] InputError malformed_value(std::string_view key, std::string_view expected) const;
  [[noreturn]] void fail(std::string_view key, std::string_view expected) const {
    throw malformed_value(key, expected);
  }

  /// Absent keys of this object and of nested objects, with the default values of the public implementation.
  [[nodiscard]] const std::map<std::string, std::string>& defaults() const { return shared_->defaults; }

 private:
  [[nodiscard]] ConfigReader nested(const nlohmann::json& object, const std::string& name) const;
  /// Returns the value, even if it is null; nullptr if the key is absent.
  [[nodiscard]] const nlohmann::json* stored(std::string_view key) const;
  [[nodiscard]] const nlohmann::json& get(std::string_view key, std::string_view expected);
  template <class T, class Read>
  [[nodiscard]] T read_or(std::string_view key, T fallback, const Read& read);
  template <class T, class Read>
  [[nodiscard]] std::optional<T> read_or_none(std::string_view key, std::optional<T> fallback, const Read& read);
  [[nodiscard]] std::string found(std::string_view key) const;
  void note_default(std::string_view key, const nlohmann::json& value);
  /// Returns nullopt for a key that is not inert, "" if `value` is accepted, else the accepted values.
  [[nodiscard]] std::optional<std::string> inert_values(const std::string& key, const nlohmann::json& value) const;
  /// Returns the error "--ignore-key K: expected a key that does not change the function; WHY".
  [[nodiscard]] ConfigError cannot_be_ignored(std::string_view key, std::string_view why) const;

  /// State shared by the readers of an object and of its nested objects.
  struct Shared {
    std::map<std::string, std::string> defaults;
    std::set<std::string, std::less<>> ignored;
    std::vector<std::string> keys;  ///< keys with prefixes, added by finish()
  };

  nlohmann::json object_;
  std::string path_;
  std::string prefix_;
  StoredCounts counts_;
  std::set<std::string, std::less<>> accepted_, null_is_absent_;
  std::span<const InertKey> inert_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace periscope
