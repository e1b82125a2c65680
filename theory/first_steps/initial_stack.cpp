#include "theory/first_steps/initial_stack.h"

#include <map>

#include "sim/spec/block.h"
#include "theory/norms/norm_law.h"
#include "theory/width/gram_signal.h"

namespace periscope::theory {
namespace {

/// Samples the embedding table and returns the row of every token [all, D].
Matrix looked_up(const StackSpec& spec, const std::vector<int>& ids, NormalStream numbers) {
  std::map<int, Index> row;
  for (const int id : ids) row.try_emplace(id, static_cast<Index>(row.size()));
  const Matrix table =
      stddev_of(spec, 0, Weight::embedding) * numbers.normals(static_cast<Index>(row.size()), spec.model.width);
  Matrix x(static_cast<Index>(ids.size()), spec.model.width);
  for (std::size_t t = 0; t < ids.size(); ++t) x.row(static_cast<Index>(t)) = table.row(row.at(ids[t]));
  return x;
}

/// Returns Σ_i weights_i x_i.
Matrix weighted(const std::vector<double>& weights, const std::vector<Matrix>& x) {
  Matrix sum = Matrix::Zero(x.front().rows(), x.front().cols());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] != 0.0) sum += weights[i] * x[i];
  }
  return sum;
}

}  // namespace

InitialStack initial_stack(const StackSpec& spec, const TrainingTokens& tokens, const ReplicateDraws& draws) {
  const ModelSpec& m = spec.model;
  const NormUse norm = norm_use(m);
  InitialStack stack;
  stack.branches.resize(static_cast<std::size_t>(m.sublayers()));
  Matrix input = looked_up(spec, tokens.ids, draws.numbers(m.sublayers(), ReplicateDraws::Use::table));
  stack.embedded = input.cast<float>();
  input *= m.embedding.scale;
  if (m.embedding_norm) normalise(input, norm, m.gamma);
  std::vector<Matrix> x(static_cast<std::size_t>(m.ends().streams()), input);
  for (int s = 0; s < m.steps(); ++s) {
    const Step step = m.step(s);
    std::vector<Matrix> written;
    Matrix a;
    for (const Branch& branch : step.branches) {
      if (!branch.shares_input) {
        a = weighted(branch.reads, x);
        if (branch.norm_a) normalise(a, norm, m.gamma);
        a *= branch.input_gain;
      }
      InitialBranch& b = stack.branches[static_cast<std::size_t>(branch.sublayer)];
      b.input = a.cast<float>();
      NormalStream numbers = draws.numbers(branch.sublayer, ReplicateDraws::Use::module);
      const Matrix in = square_root(a);
      const Matrix root = branch.kind == ModuleKind::mlp
                              ? mlp_root(spec, branch.layer(), in, numbers)
                              : attention_root(spec, branch.layer(), in, tokens.sequence, numbers);
      Matrix f = root * numbers.normals(root.cols(), m.width);
      b.output = f.cast<float>();
      if (branch.norm_b) normalise(f, norm, m.gamma);
      written.push_back(std::move(f));
    }
    std::vector<Matrix> next;
    for (std::size_t i = 0; i < x.size(); ++i) {
      next.push_back(weighted(step.mixing[i], x));
      for (std::size_t b = 0; b < written.size(); ++b) next[i] += step.branches[b].writes[i] * written[b];
      if (step.norm_c[i]) normalise(next[i], norm, m.gamma);
    }
    x = std::move(next);
  }
  return stack;
}

}  // namespace periscope::theory
