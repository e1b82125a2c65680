#include <cmath>

#include "theory/first_steps/moved_modules.h"

namespace periscope::theory {
namespace {

using Index = Eigen::Index;
using Patterns = SequenceAttention::Patterns;

/// The rotated rows of the next batch, of which gradients are taken.
SequenceAttention::Rotated first_rows_of(const SequenceAttention::Rotated& r, Index rows) {
  return {.rotated = r.rotated.topRows(rows),
          .normalised = r.normalised.topRows(rows),
          .inverse = r.inverse.size() > 0 ? Eigen::VectorXf(r.inverse.head(rows)) : Eigen::VectorXf()};
}

/// Sampled key/value groups side by side: queries and outputs have columns for every head, keys and values for every
/// group. The groups of the second half are those of the first with the signs of all that is random turned.
class TrainedAttention final : public TrainedModule {
 public:
  TrainedAttention(const ModuleContext& context, int layer, const InitialBranch& branch)
      : context_(context),
        layer_(layer),
        branch_(branch),
        attention_(context.spec.model, layer, context.tokens.sequence),
        history_(context.tokens, context.samples.channels),
        v_update_(context, 2 * layer, 8, context.spec.model.key_width(), entry_stddev(context.spec, layer, Weight::v)) {
    const ModelSpec& m = context.spec.model;
    const TrainingTokens& tokens = context.tokens;
    HeadDrawer drawer(context.spec, layer, branch, tokens.sequence, context.samples);
    per_group_ = drawer.heads_per_group();
    const Index half = drawer.groups();
    groups_ = 2 * half;
    const Index e = m.head_dim;
    for (RowFields* f : {&q_, &k_, &v_}) {
      const Index columns = (f == &q_ ? per_group_ : 1) * groups_ * e;
      f->before.resize(tokens.all(), columns);
      f->gradient.resize(tokens.trained(), columns);
    }
    before_.resize(tokens.all(), q_.before.cols());
    std::vector<Patterns> before_patterns;
    for (Index g = 0; g < half; ++g) {
      HeadGroup group = drawer.next(true);
      for (const Index at : {g, g + half}) {
        k_.before.middleCols(at * e, e) = group.k_projection;
        v_.before.middleCols(at * e, e) = group.v;
        for (Index h = 0; h < per_group_; ++h) {
          const auto i = static_cast<std::size_t>(h);
          q_.before.middleCols(head(at, h), e) = group.q_projection[i];
          before_.middleCols(head(at, h), e) = attention_.mixed(group.scores[i].pattern, group.v);
        }
      }
      for (SequenceAttention::Scores& scores : group.scores) {
        scores.pattern.resize(static_cast<std::size_t>(tokens.trained() / tokens.sequence));
        before_patterns.push_back(std::move(scores.pattern));
      }
    }
    const double spread = entry_stddev(context.spec, layer, Weight::o) * std::sqrt(static_cast<double>(m.width));
    NormalStream numbers = context.samples.numbers(2 * layer, StepSamples::Purpose::cotangents);
    cotangent_ = both_signs(
        fields_of(spread, factor_of(branch.gradient), numbers.normals_float(tokens.trained(), before_.cols() / 2)));
    // The gradients of the values before training, through patterns that are those of all batches.
    v_before_.setZero(tokens.trained(), v_.before.cols());
    for (Index g = 0; g < groups_; ++g) {
      for (Index h = 0; h < per_group_; ++h) {
        v_before_.middleCols(g * e, e) +=
            attention_.mixed_back(before_patterns[static_cast<std::size_t>((g % half) * per_group_ + h)],
                                  cotangent_.middleCols(head(g, h), e));
      }
    }
    patterns_.resize(static_cast<std::size_t>(groups_ * per_group_));
    last_.emplace(context, branch, layer, Weight::o, m.query_width(), before_.cols());
    channels_ = input_channels(context, 2 * layer, branch);
  }

  MovedModule now(const MovedInput& input, const TokensNow& now) override {
    const ModelSpec& m = context_.spec.model;
    const Index e = m.head_dim;
    const FieldMover mover(branch_.input, input, history_, now, context_.law, m.width, context_.fault);
    NormalStream fresh = context_.samples.fresh_numbers(2 * layer_, static_cast<int>(now.done));
    const auto moved = [&](const RowFields& fields, Weight weight, int which) {
      return mover.move(fields, variance(weight), context_.samples.row_numbers(2 * layer_, which), fresh);
    };
    const MovedFields of_q = moved(q_, Weight::q, 0);
    const MovedFields of_k = moved(k_, Weight::k, 1);
    const MovedFields of_v = moved(v_, Weight::v, 2);
    const Sampled& q = of_q.values;
    const Sampled& k = of_k.values;
    const Sampled& v = of_v.values;
    const auto square_of = [&](Weight weight) {
      return Eigen::VectorXf((variance(weight) * m.width * input.own.diagonal()).cast<float>());
    };
    const Eigen::VectorXf q_square = square_of(Weight::q);
    const Eigen::VectorXf k_square = square_of(Weight::k);
    Sampled output(now.count(), before_.cols());
    MovedModule module;
    module.response = Sampled::Zero(now.count(), now.trained());
    const Index next = now.next();
    queries_now_.clear();
    keys_now_.clear();
    scores_now_.clear();
    for (Index g = 0; g < groups_; ++g) {
      const SequenceAttention::Rotated keys = attention_.rotated(k.middleCols(g * e, e), k_square, m.kv_heads);
      const Sampled own_values = v.middleCols(g * e, e);
      const Sampled through = now.done > 0 ? value_response(mover, of_v, g) : Sampled();
      for (Index h = 0; h < per_group_; ++h) {
        const Index column = head(g, h);
        const SequenceAttention::Rotated queries = attention_.rotated(q.middleCols(column, e), q_square, m.heads);
        SequenceAttention::Scores scores = attention_.scores(queries.rotated, keys.rotated);
        output.middleCols(column, e) = attention_.mixed(scores.pattern, own_values);
        Patterns& before = patterns_[static_cast<std::size_t>(g * per_group_ + h)];
        if (now.done > 0) {
          const Sampled reached = attention_.mixed(scores.pattern, through);
          module.response += attention_.mixed(before, reached.transpose()).transpose();
        }
        if (next == 0) continue;
        scores.pattern.resize(static_cast<std::size_t>(next / context_.tokens.sequence));
        if (!scores.derivative.empty()) scores.derivative.resize(scores.pattern.size());
        before.insert(before.end(), scores.pattern.begin(), scores.pattern.end());
        queries_now_.push_back(first_rows_of(queries, next));
        scores_now_.push_back(std::move(scores));
      }
      if (next > 0) keys_now_.push_back(first_rows_of(keys, next));
    }
    const double gain = variance(Weight::o) * m.query_width();
    module.response = static_cast<float>(gain / static_cast<double>(groups_ * per_group_)) *
                      decayed(module.response, context_.law, now);
    fill_module(module, now.rows_of(before_), output, gain, context_.law.kept(now.done), context_.samples.channels,
                context_.samples.row_numbers(2 * layer_, 10));
    last_->fill(module, output, now);
    module.update_square[Weight::q] = of_q.update_square;
    module.update_square[Weight::k] = of_k.update_square;
    module.update_square[Weight::v] = of_v.update_square;
    if (next > 0) {
      values_now_ = v.topRows(next);
      hidden_now_ = output.topRows(next);
      channels_now_ = mover.keep().head(next).asDiagonal() * channels_.middleRows(now.trained(), next) +
                      input.follows.topRows(next) + input.wanders.topRows(next);
      history_.append(input, now, mover.keep(), mover.true_cross());
    }
    return module;
  }

  Sampled back(const Sampled& gradients, const TokensNow& now) override {
    const ModelSpec& m = context_.spec.model;
    const Index e = m.head_dim;
    const Index first = now.trained();
    const Index next = now.next();
    const Sampled beta = last_->cotangent(cotangent_.middleRows(first, next), gradients, now);
    for (Index g = 0; g < groups_; ++g) {
      const SequenceAttention::Rotated& keys = keys_now_[static_cast<std::size_t>(g)];
      const Sampled values = values_now_.middleCols(g * e, e);
      Sampled dk = Sampled::Zero(next, e);
      Sampled dv = Sampled::Zero(next, e);
      for (Index h = 0; h < per_group_; ++h) {
        const Index column = head(g, h);
        const auto i = static_cast<std::size_t>(g * per_group_ + h);
        const Sampled own = beta.middleCols(column, e);
        const Patterns dz = attention_.score_gradient(scores_now_[i], own, values);
        q_.gradient.block(first, column, next, e) =
            attention_.back(queries_now_[i], attention_.mixed(dz, keys.rotated), m.heads);
        dk += attention_.mixed_back(dz, queries_now_[i].rotated);
        dv += attention_.mixed_back(scores_now_[i].pattern, own);
      }
      k_.gradient.block(first, g * e, next, e) = attention_.back(keys, dk, m.kv_heads);
      v_.gradient.block(first, g * e, next, e) = dv;
    }
    last_->append(hidden_now_, gradients, now);
    return v_update_.back(v_.gradient.middleRows(first, next), v_before_.middleRows(first, next), channels_now_);
  }

  [[nodiscard]] Sampled gradients(const TokensNow& now) const override { return last_->gradients(now); }

 private:
  [[nodiscard]] Index head(Index group, Index h) const {
    return (group * per_group_ + h) * context_.spec.model.head_dim;
  }
  [[nodiscard]] double variance(Weight weight) const {
    return std::pow(entry_stddev(context_.spec, layer_, weight), 2);
  }
  /// Mean over a group's features of ∂v(s)/∂dv(t) [now, trained].
  [[nodiscard]] Sampled value_response(const FieldMover& mover, const MovedFields& of_v, Index group) const {
    const Index e = context_.spec.model.head_dim;
    const auto width = static_cast<float>(mover.width());
    Sampled through = static_cast<float>(variance(Weight::v)) * width * mover.response();
    const Eigen::VectorXf slope = of_v.slope.middleCols(group * e, e).rowwise().mean();
    through -= width * (mover.cross() * slope.asDiagonal());
    if (of_v.w.size() > 0) {
      through += (width / static_cast<float>(e)) *
                 (of_v.v.middleCols(group * e, e) * of_v.w.middleCols(group * e, e).transpose());
    }
    return through;
  }

  const ModuleContext& context_;
  int layer_;
  const InitialBranch& branch_;
  SequenceAttention attention_;
  Index groups_ = 0;
  Index per_group_ = 1;
  RowFields q_, k_, v_;
  Sampled cotangent_;               // W_oᵀ g of every batch
  Sampled before_;                  // heads' outputs before training
  std::vector<Patterns> patterns_;  // of every head, of every batch at its step
  ReadHistory history_;
  std::optional<LastMatrix> last_;
  FirstMatrix v_update_;
  Sampled channels_;  // of A_out before training
  Sampled v_before_;  // gradients of the values before training
  // Of the next batch.
  std::vector<SequenceAttention::Rotated> queries_now_, keys_now_;
  std::vector<SequenceAttention::Scores> scores_now_;
  Sampled values_now_, hidden_now_, channels_now_;
};

}  // namespace

std::unique_ptr<TrainedModule> trained_attention(const ModuleContext& context, int layer, const InitialBranch& branch) {
  return std::make_unique<TrainedAttention>(context, layer, branch);
}

}  // namespace periscope::theory
