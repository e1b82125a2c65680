#include "experiments/studies/verify/bound_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <type_traits>

#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/model/parameters.h"

namespace periscope::verify {
namespace {

using Json = nlohmann::ordered_json;

Json rows_json(const std::vector<double>& values, int cols) {
  Json rows = Json::array();
  for (auto row = values.begin(); row != values.end(); row += cols)
    rows.push_back(std::vector<double>(row, row + cols));
  return rows;
}

/// Reads the keys of a case and says which one is wrong.
class CaseReader {
 public:
  CaseReader(const Json& json, std::string file) : json_(json), file_(std::move(file)) {
    if (!json.is_object()) fail("the file", "a JSON object with a case");
  }

  [[noreturn]] void fail(const std::string& key, const std::string& expected) const {
    throw InputError(fmt::format("{}: {}: expected {}", file_, key, expected));
  }
  template <class T>
  T get(const std::string& key, const std::string& expected) const {
    asked_.insert(key);
    try {
      const Json& value = json_.at(key);
      if constexpr (!std::is_same_v<T, bool>) refuse_conversions<T>(key, value, expected);
      return value.get<T>();
    } catch (const nlohmann::json::exception&) {
      fail(key, expected);
    }
  }
  /// Refuses keys that nothing asked for: misspelt, or of another kind of case.
  void refuse_others() const {
    for (const auto& [key, value] : json_.items()) {
      if (!asked_.contains(key)) fail(shortened(key), "no such key in this case");
    }
  }
  [[nodiscard]] double number(const std::string& key) const { return finite(key, get<double>(key, "a number")); }
  [[nodiscard]] bool flag(const std::string& key) const { return get<bool>(key, "true or false"); }
  /// One of the names, as its index.
  template <class Enum>
  Enum name(const std::string& key, std::span<const std::string_view> names) const {
    const auto it = std::ranges::find(names, get<std::string>(key, "a name"));
    if (it == names.end()) fail(key, fmt::format("one of {}", fmt::join(names, ", ")));
    return static_cast<Enum>(it - names.begin());
  }
  [[nodiscard]] std::vector<double> vector(const std::string& key, std::size_t size) const {
    auto values = get<std::vector<double>>(key, fmt::format("{} numbers", size));
    if (values.size() != size) fail(key, fmt::format("{} numbers, not {}", size, values.size()));
    for (const double v : values) finite(key, v);
    return values;
  }
  /// Empty if there is no such key.
  [[nodiscard]] std::vector<double> optional_vector(const std::string& key, std::size_t size) const {
    return json_.contains(key) ? vector(key, size) : std::vector<double>{};
  }
  /// A matrix of `cols` columns and, unless 0, `rows` rows.
  [[nodiscard]] std::vector<double> matrix(const std::string& key, std::size_t rows, std::size_t cols) const {
    const std::string expected = fmt::format("rows of {} numbers", cols);
    std::vector<double> values;
    const auto list = get<std::vector<std::vector<double>>>(key, expected);
    if (list.empty() || (rows != 0 && list.size() != rows)) {
      fail(key, rows == 0 ? "at least one row" : fmt::format("{} rows, not {}", rows, list.size()));
    }
    for (const std::vector<double>& row : list) {
      if (row.size() != cols) fail(key, expected);
      for (const double v : row) values.push_back(finite(key, v));
    }
    return values;
  }
  [[nodiscard]] CaseNorm norm(const std::string& key, bool present, std::size_t width) const {
    if (!present) return {};
    const auto it = json_.find(key);
    if (it == json_.end()) fail(key, "the gain (and bias) of this norm");
    asked_.insert(key);
    const CaseReader inside(*it, file_ + ": " + key);
    CaseNorm norm{inside.vector("gain", width), inside.optional_vector("bias", width)};
    inside.refuse_others();
    return norm;
  }

 private:
  /// The JSON library would take true for 1 and 1.5 for the integer 1.
  template <class T>
  void refuse_conversions(const std::string& key, const Json& value, const std::string& expected) const {
    if (value.is_array()) {
      for (const Json& entry : value) refuse_conversions<T>(key, entry, expected);
    } else if (value.is_boolean() || (std::is_same_v<T, std::vector<int>> && !value.is_number_integer())) {
      fail(key, expected);
    }
  }

  double finite(const std::string& key, double value) const {
    if (!std::isfinite(value)) fail(key, "finite numbers");
    return value;
  }

  const Json& json_;
  const std::string file_;
  mutable std::set<std::string> asked_;
};

}  // namespace

ModelSpec case_model(const SublayerRule& rule, int width, int mlp_width) {
  ModelSpec m;
  m.layers = 1;
  m.width = m.head_dim = width;
  m.heads = m.kv_heads = 1;
  m.mlp = MlpKind::relu;
  m.mlp_width = mlp_width;
  m.norm_eps = 0.0;
  m.placement = custom_placement(rule);
  m.final_norm = m.unembedding = m.rope = false;
  m.vocab = width;
  return m;
}

std::string placement_of(const BoundCase& c) {
  const SublayerRule r = c.rule();
  for (const char* name : {"none", "pre", "peri", "b-only", "post", "a+c"}) {
    const SublayerRule row = find_placement(name)->at(0, 1);
    if (row.norm_a == r.norm_a && row.norm_b == r.norm_b && row.norm_c == r.norm_c) return name;
  }
  return fmt::format("{}{}{}", r.norm_a ? "A" : "", r.norm_b ? "B" : "", r.norm_c ? "C" : "");
}

Json case_json(const BoundCase& c) {
  const ModelSpec& m = c.model;
  const SublayerRule r = c.rule();
  Json json{{"A", r.norm_a},
            {"B", r.norm_b},
            {"C", r.norm_c},
            {"alpha", r.alpha},
            {"beta", r.beta},
            {"final_norm", m.final_norm},
            {"norm", norm_kind_names[static_cast<std::size_t>(m.norm)]},
            {"norm_eps", m.norm_eps},
            {"mlp", mlp_kind_names[static_cast<std::size_t>(m.mlp)]},
            {"labels", c.labels},
            {"x", rows_json(c.x, m.width)}};
  if (!c.gate.empty()) json["gate"] = rows_json(c.gate, m.width);
  json["up"] = rows_json(c.up, m.width);
  json["down"] = rows_json(c.down, m.mlp_width);
  for (const auto& [name, bias] :
       {std::pair{"gate_bias", &c.gate_bias}, std::pair{"up_bias", &c.up_bias}, std::pair{"down_bias", &c.down_bias}}) {
    if (!bias->empty()) json[name] = *bias;
  }
  if (m.unembedding) json["unembedding"] = rows_json(c.unembedding, m.width);
  const auto add_norm = [&](const char* name, const CaseNorm& norm) {
    if (norm.gain.empty()) return;
    json[name]["gain"] = norm.gain;
    if (!norm.bias.empty()) json[name]["bias"] = norm.bias;
  };
  add_norm("norm_a", c.a);
  add_norm("norm_b", c.b);
  add_norm("norm_c", c.c);
  add_norm("final", c.final);
  return json;
}

BoundCase case_from_json(const Json& json, const std::string& file) {
  const CaseReader read(json, file);
  const auto x = read.get<std::vector<std::vector<double>>>("x", "rows of numbers, one per token");
  const auto down = read.get<std::vector<std::vector<double>>>("down", "D rows of numbers, one per hidden unit");
  if (x.empty() || x.front().empty() || x.front().size() > 4096) read.fail("x", "rows of 1 to 4096 numbers");
  if (down.empty() || down.front().empty()) read.fail("down", "D rows of numbers, one per hidden unit");
  const std::size_t width = x.front().size();
  const std::size_t units = down.front().size();
  const SublayerRule rule{.norm_a = read.flag("A"),
                          .norm_b = read.flag("B"),
                          .norm_c = read.flag("C"),
                          .alpha = read.number("alpha"),
                          .beta = read.number("beta")};
  BoundCase c;
  c.model = case_model(rule, static_cast<int>(width), static_cast<int>(units));
  ModelSpec& m = c.model;
  m.final_norm = read.flag("final_norm");
  m.norm = read.name<NormKind>("norm", norm_kind_names);
  m.norm_eps = read.number("norm_eps");
  m.mlp = read.name<MlpKind>("mlp", mlp_kind_names);
  if (m.norm_eps < 0.0) read.fail("norm_eps", "a number of at least 0");
  if (m.norm == NormKind::layer && width < 2) read.fail("x", "at least 2 features, because the norm is LayerNorm");
  c.labels = read.get<std::vector<int>>("labels", "one class per token");
  if (c.labels.size() != x.size()) read.fail("labels", fmt::format("{} classes, one per token", x.size()));
  c.x = read.matrix("x", 0, width);
  if (is_gated(m.mlp)) c.gate = read.matrix("gate", units, width);
  c.up = read.matrix("up", units, width);
  c.down = read.matrix("down", width, units);
  if (is_gated(m.mlp)) c.gate_bias = read.optional_vector("gate_bias", units);
  c.up_bias = read.optional_vector("up_bias", units);
  c.down_bias = read.optional_vector("down_bias", width);
  m.unembedding = json.contains("unembedding");
  if (m.unembedding) {
    c.unembedding = read.matrix("unembedding", 0, width);
    m.vocab = static_cast<int>(c.unembedding.size() / width);
  }
  for (const int label : c.labels) {
    if (label < 0 || label >= c.classes()) read.fail("labels", fmt::format("classes from 0 to {}", c.classes() - 1));
  }
  c.a = read.norm("norm_a", rule.norm_a, width);
  c.b = read.norm("norm_b", rule.norm_b, width);
  c.c = read.norm("norm_c", rule.norm_c, width);
  c.final = read.norm("final", m.final_norm, width);
  read.refuse_others();
  return c;
}

Tensor CaseWeights::matrix(Weight weight) const {
  const Tensor::Index d = case_.model.width;
  const Tensor::Index h = case_.model.mlp_width;
  switch (weight) {
    case Weight::gate: return ops_.from_host(h, d, DType::f64, case_.gate);
    case Weight::up: return ops_.from_host(h, d, DType::f64, case_.up);
    case Weight::down: return ops_.from_host(d, h, DType::f64, case_.down);
    case Weight::unembedding: return ops_.from_host(case_.model.vocab, d, DType::f64, case_.unembedding);
    default: throw std::logic_error("a case has no attention and no embedding");
  }
}

Tensor CaseWeights::bias(Weight weight) const {
  const std::vector<double>* b = weight == Weight::gate   ? &case_.gate_bias
                                 : weight == Weight::up   ? &case_.up_bias
                                 : weight == Weight::down ? &case_.down_bias
                                                          : nullptr;
  if (b == nullptr || b->empty()) return {};
  return ops_.from_host(1, static_cast<Tensor::Index>(b->size()), DType::f64, *b);
}

NormWeights CaseWeights::norm(Weight weight) const {
  const CaseNorm& n = weight == Weight::norm_a   ? case_.a
                      : weight == Weight::norm_b ? case_.b
                      : weight == Weight::norm_c ? case_.c
                                                 : case_.final;
  const Tensor::Index d = case_.model.width;
  return {ops_.from_host(1, d, DType::f64, n.gain),
          n.bias.empty() ? Tensor{} : ops_.from_host(1, d, DType::f64, n.bias)};
}

SublayerWeights CaseWeights::fetch(int sublayer) const {
  SublayerWeights all;
  for (const Weight weight : weights_in(case_.model, sublayer)) {
    if (is_norm(weight)) {
      all.norms[weight] = norm(weight);
    } else {
      all.linear[weight] = {dense_map([this, weight] { return matrix(weight); }), bias(weight)};
    }
  }
  return all;
}

Tensor CaseWeights::rows(const Backend& /*ops*/, Weight /*table*/, std::span<const int> /*ids*/) const {
  throw std::logic_error("a case has no tables");
}

}  // namespace periscope::verify
