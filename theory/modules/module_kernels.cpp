#include "theory/modules/module_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "sim/spec/weight_scales.h"
#include "theory/attention/attention_head.h"
#include "theory/kernels/discrete_rule.h"
#include "theory/modules/inside_modules.h"

namespace periscope::theory {
namespace {

/// Maximum number of nodes of the Gauss rule over hidden channels. The kernel of an MLP is smooth in the size r of a
/// pre-activation, and proportional to r² for small and for large r. Tests compare the rule with the sum over channels.
constexpr Index max_channel_nodes = 16;

double bias_variance(const StackSpec& spec, int layer, Weight weight) {
  const double sigma = bias_stddev_of(spec, matrix_id(layer, weight));
  return sigma * sigma;
}

/// Returns a_j·b_j [count]; an empty vector means 1 in every entry.
Vector product_of(const Vector& a, const Vector& b, Index count) {
  if (a.size() == 0 && b.size() == 0) return Vector::Ones(count);
  if (a.size() == 0) return b;
  return b.size() == 0 ? a : Vector(a.cwiseProduct(b));
}

/// Kernel of a table lookup: `scale` is the second moment of the table's entries, row(t) the row of token t.
template <class Row>
ChannelKernel looked_up(const MatrixLaw& law, double scale, Index tokens, int width, const Row& row) {
  Matrix k = Matrix::Zero(tokens, tokens);
  for (Index t = 0; t < tokens; ++t) {
    for (Index s = 0; s < tokens; ++s) {
      // Only equal rows correlate, so the product of the two tokens' row factors is one row power.
      if (row(t) == row(s)) k(t, s) = scale * (law.rows.size() == 0 ? 1.0 : law.rows(row(t)));
    }
  }
  return with_row_powers(k, law.columns, width);
}

bool has_flat_input(const StackSpec& spec) {
  return std::ranges::all_of(std::array{Weight::embedding, Weight::positions, Weight::token_types, Weight::project_in},
                             [&](Weight weight) {
                               return spec.scales == nullptr || !spec.scales->profiles.contains(matrix_id(0, weight)) ||
                                      matrix_law(spec, 0, weight).is_flat();
                             });
}

}  // namespace

ChannelKernel stack_input(const StackSpec& spec, const std::vector<int>& ids) {
  const ModelSpec& m = spec.model;
  const EmbeddingSpec& e = m.embedding;
  const double bias = m.projects_embedding() ? bias_stddev_of(spec, matrix_id(0, Weight::project_in)) : 0.0;
  if (ids.empty() || has_flat_input(spec)) return with_bias({input_kernel(spec, ids)}, bias, m.width);
  const auto tokens = static_cast<Index>(ids.size());
  const MatrixLaw table = matrix_law(spec, 0, Weight::embedding);
  ChannelKernel x = looked_up(table, e.scale * e.scale * table.variance, tokens, m.embedding_width(),
                              [&](Index t) { return ids[static_cast<std::size_t>(t)]; });
  if (m.projects_embedding()) {
    const MatrixLaw project = matrix_law(spec, 0, Weight::project_in);
    const Matrix k = project.variance * m.embedding_width() * read_kernel(x, project.columns);
    x = with_bias(with_row_powers(k, project.rows, m.width), bias, m.width);
  }
  if (e.positions > 0) {
    const MatrixLaw law = matrix_law(spec, 0, Weight::positions);
    x = combined(1.0, x, 1.0, looked_up(law, law.variance, tokens, m.width, [&](Index t) {
                   return static_cast<int>(t % spec.input.tokens) + e.position_offset;
                 }));
  }
  if (e.token_types > 0) {
    const MatrixLaw law = matrix_law(spec, 0, Weight::token_types);
    x = combined(1.0, x, 1.0, looked_up(law, law.variance, tokens, m.width, [](Index) { return 0; }));
  }
  return x;
}

Vector head_weights(const StackSpec& spec, int layer) {
  const ModelSpec& m = spec.model;
  const Vector output_columns = matrix_law(spec, layer, Weight::o).columns;
  const Vector values = matrix_law(spec, layer, Weight::v).rows;
  if (output_columns.size() == 0 && values.size() == 0) return {};
  Vector weights = Vector::Zero(m.heads);
  const int e = m.head_dim_at(layer);
  for (int h = 0; h < m.heads; ++h) {
    const int kv_head = h / (m.heads / m.kv_heads_at(layer));
    for (int i = 0; i < e; ++i) {
      weights(h) += (output_columns.size() == 0 ? 1.0 : output_columns(h * e + i)) *
                    (values.size() == 0 ? 1.0 : values(kv_head * e + i));
    }
  }
  return weights / e;
}

ChannelKernel attention_kernel(const StackSpec& spec, int layer, const AttentionAverage& average,
                               const ChannelKernel& input, int samples, PatternStream stream, Vector* inner) {
  const ModelSpec& m = spec.model;
  const bool gated = m.gates_at(layer) > 0;
  if (spec.scales != nullptr && (m.v_norm_at(layer) || gated || m.inner_norm_at(2 * layer))) {
    throw std::logic_error("unsupported: norms or gates inside modules with given scales");
  }
  const MatrixLaw q = matrix_law(spec, layer, Weight::q);
  const MatrixLaw k = matrix_law(spec, layer, Weight::k);
  const MatrixLaw v = matrix_law(spec, layer, Weight::v);
  const MatrixLaw o = matrix_law(spec, layer, Weight::o);
  const Matrix& x = input.total.product;
  const double projected = v.variance * m.width;
  Matrix heads;
  if (m.v_norm_at(layer)) {
    heads = average.head_output_kernel(x, x, normed_values(projected * x, m.head_dim_at(layer), m.norm_eps), samples,
                                       stream);
  } else if (q.columns.size() + k.columns.size() + v.columns.size() == 0) {
    heads = projected * average.head_output_kernel(x, samples, stream);
  } else {
    heads = projected * average.head_output_kernel(read_kernel(input, q.columns), read_kernel(input, k.columns),
                                                   read_kernel(input, v.columns), samples, stream);
  }
  if (gated) heads = heads.cwiseProduct(gate_kernels(spec, layer, x).values);
  if (m.inner_norm_at(2 * layer)) {
    const Vector square = inner_square(heads, m.norm_eps);
    heads = through_inner_norm(heads, square);
    if (inner != nullptr) *inner = square;
  }
  double gain = o.variance * m.query_width(layer);
  if (const Vector weights = head_weights(spec, layer); weights.size() > 0) gain *= weights.mean();
  Matrix out = gain * heads;
  if (const double bias = bias_variance(spec, layer, Weight::v); bias > 0.0) {
    out.array() += o.variance * m.query_width(layer) * mean_of(o.columns) * bias;
  }
  return with_row_powers(out, o.rows, m.width);
}

ChannelKernel mlp_kernel(const StackSpec& spec, int layer, const ChannelKernel& input, Matrix* activated) {
  const ModelSpec& m = spec.model;
  const bool gated = is_gated(m.mlp);
  const Activation activation = activation_of(m.mlp);
  const MatrixLaw up = matrix_law(spec, layer, Weight::up);
  const MatrixLaw down = matrix_law(spec, layer, Weight::down);
  const MatrixLaw first = gated ? matrix_law(spec, layer, Weight::gate) : up;  // the matrix before the activation
  const double first_bias = bias_variance(spec, layer, gated ? Weight::gate : Weight::up);
  const double up_bias = bias_variance(spec, layer, Weight::up);
  const auto mapped = [&](const MatrixLaw& law) {
    return Matrix(law.variance * m.width * read_kernel(input, law.columns));
  };
  const auto biased = [](Matrix k, double bias) {
    if (bias > 0.0) k.array() += bias;
    return k;
  };
  if (activated != nullptr && first.rows.size() + up.rows.size() + down.columns.size() > 0) {
    throw std::logic_error("unsupported in the backward pass: hidden channels that differ in size");
  }
  // Σ_j weights_j Φ(r_j² κ + b²)/h, r_j² the row power of channel j in `first`.
  const Matrix read = mapped(first);
  const auto summed = [&](const Vector& weights) {
    if (first.rows.size() == 0) return Matrix(weights.mean() * activation_kernel(activation, biased(read, first_bias)));
    const DiscreteRule rule = discrete_gauss_rule(first.rows.cwiseSqrt(), weights, max_channel_nodes);
    Matrix sum = Matrix::Zero(read.rows(), read.cols());
    for (Index i = 0; i < rule.nodes.size(); ++i) {
      const double power = rule.nodes(i) * rule.nodes(i);
      sum += rule.weights(i) / m.mlp_width * activation_kernel(activation, biased(power * read, first_bias));
    }
    return sum;
  };
  const Vector down_columns = product_of(down.columns, Vector(), m.mlp_width);
  Matrix phi = summed(gated ? product_of(down_columns, up.rows, m.mlp_width) : down_columns);
  Matrix hidden = gated ? Matrix(phi.cwiseProduct(mapped(up))) : phi;
  if (gated && up_bias > 0.0) hidden += up_bias * (up.rows.size() == 0 ? phi : summed(down_columns));
  if (m.inner_norm_at(2 * layer + 1)) hidden = through_inner_norm(hidden, inner_square(hidden, m.norm_eps));
  if (activated != nullptr) *activated = std::move(phi);
  return with_row_powers(down.variance * m.mlp_width * hidden, down.rows, m.width);
}

ChannelUnevenness channel_unevenness(const StackSpec& spec, int sublayer) {
  if (!has_profiles(spec)) return {};
  const int layer = sublayer / 2;
  const auto of = [&](Weight weight) { return matrix_law(spec, layer, weight); };
  if (ModelSpec::is_attention(sublayer)) {
    const double read = std::max(
        {unevenness(of(Weight::q).columns), unevenness(of(Weight::k).columns), unevenness(of(Weight::v).columns)});
    return {.width = read * unevenness(of(Weight::o).rows), .hidden = unevenness(head_weights(spec, layer))};
  }
  const Index count = spec.model.mlp_width;
  Vector hidden = product_of(of(Weight::down).columns, of(Weight::up).rows, count);
  double read = unevenness(of(Weight::up).columns);
  if (is_gated(spec.model.mlp)) {
    hidden = product_of(hidden, of(Weight::gate).rows, count);
    read = std::max(read, unevenness(of(Weight::gate).columns));
  }
  return {.width = read * unevenness(of(Weight::down).rows), .hidden = unevenness(hidden)};
}

}  // namespace periscope::theory
