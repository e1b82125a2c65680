#include <fmt/format.h>

#include <cmath>

#include "sim/model/parameters.h"
#include "sim/numerics/rounding.h"
#include "tests/soundness/specimen.h"

namespace periscope::soundness {
namespace {

using Part = ParameterId::Part;
using Values = std::vector<double>;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

Values constant_rows(verify::Draw& draw, int rows, int cols, double scale) {
  Values w;
  for (int i = 0; i < rows; ++i) w.insert(w.end(), at(cols), scale * draw.normal());
  return w;
}

/// Returns rows of pairs w, −w, so that Σ_j w_j is exactly 0.
Values cancelling_rows(verify::Draw& draw, int rows, int cols, double scale) {
  Values w = draw.normals(rows * cols, scale);
  for (int i = 0; i < rows; ++i)
    for (int j = 1; j < cols; j += 2) w[at(i * cols + j)] = -w[at(i * cols + j - 1)];
  return w;
}

Values signs(verify::Draw& draw, int count, double scale) {
  Values w(at(count));
  for (double& v : w) v = draw.chance(0.5) ? scale : -scale;
  return w;
}

/// Returns rows that are multiples of one row of signs.
Values aligned_rows(verify::Draw& draw, int rows, int cols, double scale) {
  const Values row = signs(draw, cols, scale);
  Values w;
  for (int i = 0; i < rows; ++i) {
    const double length = draw.normal();
    for (const double v : row) w.push_back(length * v);
  }
  return w;
}

Values one_per_row(verify::Draw& draw, int rows, int cols, double scale) {
  Values w(at(rows * cols), 0.0);
  for (int i = 0; i < rows; ++i) w[at(i * cols + draw.integer(0, cols - 1))] = draw.chance(0.5) ? scale : -scale;
  return w;
}

struct Shaped {
  Values values;
  const char* structure;  ///< nullptr for normal entries
};

Shaped draw_matrix(verify::Draw& draw, int rows, int cols, const NumberFormat& format) {
  const double scale = draw.chance(0.6) ? 1.0 / std::sqrt(cols) : draw.magnitude(-3.0, 3.0);
  switch (draw.integer(0, 17)) {
    case 0: return {draw.rank_one(rows, cols, scale), "rank one"};
    case 1: return {aligned_rows(draw, rows, cols, scale), "aligned rows"};
    case 2: return {constant_rows(draw, rows, cols, scale), "constant rows"};
    case 3: return {cancelling_rows(draw, rows, cols, scale), "rows that cancel"};
    case 4: return {signs(draw, rows * cols, scale), "signs"};
    case 5: return {one_per_row(draw, rows, cols, scale), "one entry per row"};
    case 6: return {Values(at(rows * cols), 0.0), "zero"};
    case 7: return {signs(draw, rows * cols, format.smallest_subnormal() * draw.integer(1, 3)), "subnormal"};
    case 8: {
      Values w = draw.normals(rows * cols, scale);
      w[at(draw.integer(0, rows * cols - 1))] = format.largest * draw.uniform(0.1, 1.0);
      return {std::move(w), "an entry near the largest number"};
    }
    case 9: {
      Values w = draw.normals(rows * cols, scale);
      const int row = draw.integer(0, rows - 1);
      for (int j = 0; j < cols; ++j) w[at(row * cols + j)] *= 1e3;
      return {std::move(w), "a huge row"};
    }
    // For nearly constant rows, the terms of W·centre cancel (centre of an ellipsoid in bounded_set.h).
    case 10: {
      Values w = constant_rows(draw, rows, cols, scale);
      for (double& v : w) v += 1e-3 * scale * draw.normal();
      return {std::move(w), "nearly constant rows"};
    }
    default: return {draw.normals(rows * cols, scale), nullptr};
  }
}

Values draw_gain(verify::Draw& draw, int n, const NumberFormat& format) {
  const double scale = draw.chance(0.6) ? 1.0 : draw.magnitude(-3.0, 2.0);
  Values gain(at(n), scale);
  switch (draw.integer(0, 7)) {
    case 0:
    case 1: gain = draw.normals(n, scale); break;
    case 2: gain[at(draw.integer(0, n - 1))] *= draw.magnitude(1.0, 3.0); break;
    case 3: gain[at(draw.integer(0, n - 1))] = 0.0; break;
    case 4: gain = signs(draw, n, scale); break;
    case 5: gain[at(draw.integer(0, n - 1))] = format.smallest_subnormal(); break;
    default: break;
  }
  return gain;
}

class Writer {
 public:
  Writer(verify::Draw& draw, const NumberFormat& format, Specimen& s)
      : draw_(draw), format_(format), s_(s), biased_(draw.chance(facts_of(s.model.norm).has_bias ? 0.9 : 0.25)) {}

  void write() {
    StackSpec spec{.model = s_.model, .init = {}, .input = {}};
    spec.input.kind = s_.domain.tokens ? InputKind::tokens : InputKind::gaussian;
    for (const ParameterId& gain : gains_of(s_.model)) norm(gain);
    for (const ParameterId& id : matrices_of(spec)) matrix(id);
    relate();
  }

 private:
  void norm(const ParameterId& gain) {
    const int n = norm_width(s_.model, gain.weight, gain.sublayer);
    put(gain, 1, n, draw_gain(draw_, n, format_));
    const NormFacts& facts = facts_of(kind_of(s_.model, gain.weight));
    if (facts.has_alpha()) {
      const double alpha = draw_.chance(0.5) ? 0.5 : draw_.magnitude(-3.0, 3.0);
      put(alpha_of(gain), 1, 1, {draw_.chance(0.2) ? -alpha : alpha});
    }
    if (!facts.has_bias) return;
    const double scale = draw_.chance(0.3) ? 0.0 : draw_.magnitude(-3.0, 1.5);
    const bool constant = draw_.chance(0.2);
    put(bias_of(gain), 1, n, constant ? Values(at(n), scale) : draw_.normals(n, scale));
  }

  void matrix(const ParameterId& id) {
    const auto [rows, cols] = shape_of(s_.model, id.weight, id.layer());
    Shaped w = draw_matrix(draw_, rows, cols, format_);
    if (w.structure != nullptr) s_.structure.push_back(fmt::format("{}: {}", name_of(id), w.structure));
    put(id, rows, cols, std::move(w.values));
    const bool projects = id.weight == Weight::project_in || id.weight == Weight::project_out;
    if (is_table(id.weight) || projects || !biased_ || draw_.chance(0.1)) return;
    put(bias_of(id), 1, rows, draw_.normals(rows, draw_.chance(0.3) ? 0.0 : draw_.magnitude(-2.0, 1.5)));
  }

  /// Relates different parameters: some are copies, some biases or positions cancel other terms.
  void relate() {
    const ModelSpec& m = s_.model;
    for (int l = 0; l < m.layers; ++l) {
      if (is_gated(m.mlp) && draw_.chance(0.25)) copy(matrix_id(l, Weight::up), matrix_id(l, Weight::gate));
      if (m.heads == m.kv_heads_at(l) && draw_.chance(0.25)) copy(matrix_id(l, Weight::q), matrix_id(l, Weight::k));
      if (draw_.chance(0.25)) cancel_bias(2 * l, l, Weight::v);
      if (draw_.chance(0.25)) cancel_bias(2 * l + 1, l, Weight::up);
    }
    if (m.unembedding && s_.domain.tokens && draw_.chance(0.3)) {
      copy(matrix_id(0, Weight::embedding), matrix_id(0, Weight::unembedding));
    }
    if (s_.domain.tokens && m.embedding.positions > 0 && m.embedding_width() == m.width && draw_.chance(0.2)) {
      cancel_positions();
    }
  }

  /// Sets the bias to minus the matrix times the bias of norm A.
  void cancel_bias(int sublayer, int layer, Weight weight) {
    const auto shift = s_.numbers.find(bias_of(gain_id(sublayer, Weight::norm_a)));
    const auto bias = s_.numbers.find(bias_of(matrix_id(layer, weight)));
    if (shift == s_.numbers.end() || bias == s_.numbers.end()) return;
    const Numbers& w = s_.numbers.at(matrix_id(layer, weight));
    for (Tensor::Index i = 0; i < w.rows; ++i) {
      double sum = 0.0;
      for (Tensor::Index j = 0; j < w.cols; ++j) {
        sum += w.values[static_cast<std::size_t>(i * w.cols + j)] * shift->second.values[static_cast<std::size_t>(j)];
      }
      bias->second.values[static_cast<std::size_t>(i)] = -sum;
    }
    s_.structure.push_back(name_of(bias->first) + ": cancels");
  }

  /// Sets every position to minus the scaled row of one token.
  void cancel_positions() {
    Numbers& positions = s_.numbers.at(matrix_id(0, Weight::positions));
    const Numbers& table = s_.numbers.at(matrix_id(0, Weight::embedding));
    for (Tensor::Index i = 0; i < positions.rows * positions.cols; ++i) {
      const Tensor::Index row = i / positions.cols % table.rows;
      positions.values[static_cast<std::size_t>(i)] =
          -s_.model.embedding.scale * table.values[static_cast<std::size_t>(row * table.cols + i % table.cols)];
    }
    s_.structure.emplace_back("positions: cancel the embedding");
  }

  void copy(const ParameterId& from, const ParameterId& to) {
    s_.numbers[to] = s_.numbers.at(from);
    s_.structure.push_back(fmt::format("{} = {}", name_of(to.weight), name_of(from.weight)));
  }
  void put(const ParameterId& id, int rows, int cols, Values values) {
    s_.numbers[id] = {rows, cols, std::move(values)};
  }

  verify::Draw& draw_;
  const NumberFormat& format_;
  Specimen& s_;
  bool biased_;
};

bool belongs(const ParameterId& id, Knob knob) {
  const bool matrix = id.part == Part::matrix;
  switch (knob) {
    case Knob::tables: return matrix && is_table(id.weight);
    case Knob::gains: return is_norm(id.weight);
    case Knob::outputs: return matrix && (id.weight == Weight::o || id.weight == Weight::down);
    case Knob::all_matrices: return matrix && !is_table(id.weight);
    case Knob::biases: return id.part == Part::bias;
    case Knob::head: return id.weight == Weight::unembedding || id.weight == Weight::head_dense;
  }
  return false;
}

}  // namespace

void draw_weights(verify::Draw& draw, const NumberFormat& format, Specimen& s) { Writer(draw, format, s).write(); }

Specimen generate_specimen(std::uint64_t seed, std::uint32_t index, const NumberFormat& format) {
  verify::Draw draw({seed, index, Stream::soundness_checkpoint});
  Specimen s;
  s.index = index;
  draw_model(draw, s);
  draw_weights(draw, format, s);
  return s;
}

Parameters turned(const Specimen& s, Knob knob, double factor, const NumberFormat& format) {
  const Rounding round(format);
  Parameters numbers = s.numbers;
  for (auto& [place, n] : numbers) {
    const double by = belongs(place, knob) ? factor : 1.0;
    for (double& v : n.values) v = round(by * v);
  }
  return numbers;
}

ResidentWeights weights_of(const Backend& backend, const ModelSpec& model, const Parameters& numbers) {
  ResidentWeights::Parameters tensors;
  for (const auto& [id, n] : numbers) tensors[id] = backend.from_host(n.rows, n.cols, DType::f64, n.values);
  return {model, std::move(tensors)};
}

}  // namespace periscope::soundness
