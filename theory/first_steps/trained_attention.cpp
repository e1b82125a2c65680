#include "theory/first_steps/attention_heads.h"
#include "theory/first_steps/trained_matrices.h"

namespace periscope::theory {
namespace {

using Patterns = SequenceAttention::Patterns;

/// Selects the first rows: the next batch, which has a backward pass.
SequenceAttention::Rotated first_rows(const SequenceAttention::Rotated& r, Index rows) {
  return {.rotated = r.rotated.topRows(rows),
          .normalised = r.normalised.topRows(rows),
          .inverse = r.inverse.size() > 0 ? Eigen::VectorXf(r.inverse.head(rows)) : Eigen::VectorXf()};
}

/// Columns of queries and outputs are concatenated over all sampled heads, columns of keys and values over all groups.
class TrainedAttention final : public TrainedModule {
 public:
  TrainedAttention(const ModuleContext& context, int layer, const InitialBranch& branch)
      : context_(context),
        layer_(layer),
        attention_(context.spec.model, layer, context.tokens.sequence),
        groups_(context.draws.groups(context.spec.model, layer)),
        per_group_(context.spec.model.heads / context.spec.model.kv_heads_at(layer)),
        history_(context),
        q_(context, history_, place(Weight::q, 0)),
        k_(context, history_, place(Weight::k, 1)),
        v_(context, history_, place(Weight::v, 2)),
        last_(context, branch, 2 * layer, Weight::o, context.spec.model.query_width(layer),
              groups_ * per_group_ * context.spec.model.head_dim_at(layer)),
        patterns_(static_cast<std::size_t>(groups_ * per_group_)) {
    const Vector square = branch.input.rowwise().squaredNorm().cast<double>() / context.spec.model.width;
    before_ = heads_of(q_.initial_output(branch.input), k_.initial_output(branch.input),
                       v_.initial_output(branch.input), square)
                  .output;
  }

  ModuleOutput forward(const TrainedSignal& input, const CurrentTokens& now) override {
    const Index next = now.next();
    history_.update(input, now);
    const InputMatrix::Fields q = q_.forward(now);
    const InputMatrix::Fields k = k_.forward(now);
    const InputMatrix::Fields v = v_.forward(now);
    Heads heads = heads_of(q.values, k.values, v.values, history_.square());
    Sampled other_response = Sampled::Zero(now.count(), now.trained());
    for (Index i = 0; i < groups_ * per_group_; ++i) {
      Patterns& past = patterns_[static_cast<std::size_t>(i)];
      SequenceAttention::Scores& scores = heads.scores[static_cast<std::size_t>(i)];
      if (now.done > 0) {
        // Response through the values only; the response through the scores is neglected (docs/theory/first_steps.md).
        const Sampled value_path = attention_.mixed(scores.pattern, value_response(v, i / per_group_));
        other_response += attention_.mixed(past, value_path.transpose()).transpose();
      }
      scores.pattern.resize(static_cast<std::size_t>(next / context_.tokens.sequence));
      if (!scores.derivative.empty()) scores.derivative.resize(scores.pattern.size());
      past.insert(past.end(), scores.pattern.begin(), scores.pattern.end());
      heads.q[static_cast<std::size_t>(i)] = first_rows(heads.q[static_cast<std::size_t>(i)], next);
    }
    for (SequenceAttention::Rotated& keys : heads.k) keys = first_rows(keys, next);
    other_response /= static_cast<float>(groups_ * per_group_);
    ModuleOutput module = last_.output(now.rows_of(before_), heads.output, heads.output, other_response, now);
    module.update_square[Weight::q] = q.update_square;
    module.update_square[Weight::k] = k.update_square;
    module.update_square[Weight::v] = v.update_square;
    heads.output = heads.output.topRows(next).eval();
    values_now_ = v.values.topRows(next);
    heads_now_ = std::move(heads);
    return module;
  }

  Sampled backward(const Sampled& gradients, const CurrentTokens& now, double& square) override {
    const ModelSpec& m = context_.spec.model;
    const Index e = m.head_dim_at(layer_);
    const Index next = now.next();
    const Sampled doutput = last_.backward(gradients, now);
    last_.append(heads_now_.output, gradients, now, square);
    Sampled q(next, groups_ * per_group_ * e);
    Sampled k(next, groups_ * e);
    Sampled v = Sampled::Zero(next, groups_ * e);
    for (Index g = 0; g < groups_; ++g) {
      const SequenceAttention::Rotated& keys = heads_now_.k[static_cast<std::size_t>(g)];
      const Sampled values = values_now_.middleCols(g * e, e);
      Sampled dk = Sampled::Zero(next, e);
      for (Index h = g * per_group_; h < (g + 1) * per_group_; ++h) {
        const auto i = static_cast<std::size_t>(h);
        const Sampled head_gradient = doutput.middleCols(h * e, e);
        const Patterns dz = attention_.score_gradient(heads_now_.scores[i], head_gradient, values);
        q.middleCols(h * e, e) = attention_.backward(heads_now_.q[i], attention_.mixed(dz, keys.rotated), m.heads);
        dk += attention_.mixed_transposed(dz, heads_now_.q[i].rotated);
        v.middleCols(g * e, e) += attention_.mixed_transposed(heads_now_.scores[i].pattern, head_gradient);
      }
      k.middleCols(g * e, e) = attention_.backward(keys, dk, m.kv_heads_at(layer_));
    }
    Sampled input = q_.backward(q, now, square);
    input += k_.backward(k, now, square);
    input += v_.backward(v, now, square);
    return input;
  }

 private:
  struct Heads {
    std::vector<SequenceAttention::Rotated> q, k;
    std::vector<SequenceAttention::Scores> scores;
    Sampled output;  // [tokens, hidden]
  };
  /// `square`: E x² of the input [tokens].
  [[nodiscard]] Heads heads_of(const Sampled& q, const Sampled& k, const Sampled& v, const Vector& square) const {
    const ModelSpec& m = context_.spec.model;
    const Index e = m.head_dim_at(layer_);
    const auto square_of = [&](Weight weight) {
      return Eigen::VectorXf((std::pow(stddev_of(context_.spec, layer_, weight), 2) * m.width * square).cast<float>());
    };
    const Eigen::VectorXf q_square = square_of(Weight::q);
    const Eigen::VectorXf k_square = square_of(Weight::k);
    Heads heads;
    heads.output.resize(q.rows(), q.cols());
    for (Index g = 0; g < groups_; ++g) {
      heads.k.push_back(attention_.rotated(k.middleCols(g * e, e), k_square, m.kv_heads_at(layer_)));
      for (Index h = g * per_group_; h < (g + 1) * per_group_; ++h) {
        heads.q.push_back(attention_.rotated(q.middleCols(h * e, e), q_square, m.heads));
        heads.scores.push_back(attention_.scores(heads.q.back().rotated, heads.k.back().rotated));
        heads.output.middleCols(h * e, e) = attention_.mixed(heads.scores.back().pattern, v.middleCols(g * e, e));
      }
    }
    return heads;
  }
  [[nodiscard]] InputMatrixPlace place(Weight weight, int number) const {
    const ModelSpec& m = context_.spec.model;
    const Index heads = weight == Weight::q ? per_group_ : 1;
    return {2 * layer_, number, static_cast<int>(heads) * m.key_width(layer_), groups_ * heads * m.head_dim_at(layer_),
            stddev_of(context_.spec, layer_, weight)};
  }
  /// Returns the mean over a group's features of ∂v(s)/∂dv(t) [now, trained], dv the gradient at v.
  [[nodiscard]] Sampled value_response(const InputMatrix::Fields& v, Index group) const {
    const Index e = context_.spec.model.head_dim_at(layer_);
    const InputMatrix::Fields head_gradient{.values = {},
                                            .slope = v.slope.middleCols(group * e, e),
                                            .v = v.v.middleCols(group * e, e),
                                            .w = v.w.size() > 0 ? Sampled(v.w.middleCols(group * e, e)) : Sampled()};
    return v_.response(head_gradient, Sampled::Ones(head_gradient.v.rows(), e),
                       Sampled::Ones(head_gradient.slope.rows(), e));
  }

  const ModuleContext& context_;
  int layer_;
  SequenceAttention attention_;
  Index groups_, per_group_;
  InputHistory history_;
  InputMatrix q_, k_, v_;
  OutputMatrix last_;
  Sampled before_;                  // head outputs before training
  std::vector<Patterns> patterns_;  // [head]: patterns of every batch at its step
  // For the next batch.
  Heads heads_now_;
  Sampled values_now_;
};

}  // namespace

std::unique_ptr<TrainedModule> trained_attention(const ModuleContext& context, int layer, const InitialBranch& branch) {
  return std::make_unique<TrainedAttention>(context, layer, branch);
}

}  // namespace periscope::theory
