#include "theory/predict/gram_chain.h"

#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

#include "sim/spec/weight.h"
#include "theory/predict/gram_signal.h"

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

Matrix side_by_side(const Matrix& a, const Matrix& b) {
  Matrix all(a.rows(), a.cols() + b.cols());
  all << a, b;
  return all;
}

/// `x` in a frame with more directions.
Matrix widened(const Matrix& x, Index frame) { return side_by_side(x, Matrix::Zero(x.rows(), frame - x.cols())); }

/// A 1 in the column of every token's id [T, number of different ids].
Matrix one_hot(const std::vector<int>& ids) {
  std::map<int, Index> column;
  for (const int id : ids) column.try_emplace(id, static_cast<Index>(column.size()));
  Matrix rows = Matrix::Zero(static_cast<Index>(ids.size()), static_cast<Index>(column.size()));
  for (std::size_t t = 0; t < ids.size(); ++t) rows(static_cast<Index>(t), column.at(ids[t])) = 1.0;
  return rows;
}

/// Root of the covariance over tokens of one feature of the stack's input, given the rows of a projected table.
Matrix input_root(const StackSpec& spec, const std::vector<int>& ids, ChainStream stream) {
  const InputSpec& input = spec.input;
  const double rms = std::sqrt(input.second_moment);
  const Matrix own = Matrix::Identity(input.tokens, input.tokens);
  const Matrix common = Matrix::Ones(input.tokens, 1);
  if (ids.empty()) {
    return rms * side_by_side(std::sqrt(1.0 - input.correlation) * own, std::sqrt(input.correlation) * common);
  }
  const EmbeddingSpec& e = spec.model.embedding;
  Matrix root = e.scale * rms * one_hot(ids);
  if (spec.model.projects_embedding()) {
    stream.place = place::table;
    NormalStream table(stream);
    const Matrix rows = independent_features(square_root(root), 1, spec.model.embedding_width(), table);
    root = stddev_of(spec, 0, Weight::project_in) * rows;
  }
  if (e.positions > 0) root = side_by_side(root, rms * own);
  if (e.token_types > 0) root = side_by_side(root, rms * common);
  return root;
}

/// Writes what one seed reads into a profile.
class Readings {
 public:
  explicit Readings(const ModelSpec& model) : model_(model) {}

  void write(int index, Signal signal, const Eigen::Ref<const Matrix>& x) {
    const SignalReading r = read_signal(x, model_.width);
    set(Statistic::second_moment, signal, index, r.second_moment);
    set(Statistic::variance, signal, index, r.variance);
    set(Statistic::mean, signal, index, r.mean);
    set(Statistic::token_cosine, signal, index, r.token_cosine);
  }

  void write_branch(int sublayer, const SublayerRule& rule, const Eigen::Ref<const Matrix>& stream,
                    const Matrix& branch) {
    const Index frame = stream.cols();  // the branch's new directions are orthogonal to the stream
    const Vector xx = stream.rowwise().squaredNorm();
    const Vector bb = branch.rowwise().squaredNorm();
    const Vector bx = branch.leftCols(frame).cwiseProduct(stream).rowwise().sum();
    const double scale = std::abs(rule.beta / rule.alpha);
    set(Statistic::branch_ratio, Signal::B_out, sublayer, scale * bb.cwiseQuotient(xx).cwiseSqrt().mean());
    set(Statistic::branch_cosine, Signal::B_out, sublayer, bx.cwiseQuotient(bb.cwiseProduct(xx).cwiseSqrt()).mean());
  }

  Profile take() { return std::move(profile_); }

 private:
  void set(Statistic statistic, Signal signal, int index, double value) {
    Curve& curve = profile_.curves[{statistic, signal}];
    const bool stream = runs_over_depth(signal);
    curve.value.resize(static_cast<std::size_t>(model_.sublayers() + (stream ? 1 : 0)),
                       std::numeric_limits<double>::quiet_NaN());
    curve.value[static_cast<std::size_t>(index)] = value;
  }

  const ModelSpec& model_;
  Profile profile_;
};

/// The chain's state, and its steps.
class Chain {
 public:
  Chain(const StackSpec& spec, const GramReplicate& r)
      : spec_(spec),
        m_(spec.model),
        fault_(r.fault),
        stream_{r.seed, r.replicate, place::input},
        on_work_(r.on_work),
        readings_(m_) {}

  Profile run(const std::vector<int>& ids) {
    NormalStream input(stream_);
    const Matrix root = square_root(input_root(spec_, ids, stream_));
    state_ = independent_features(root, 1, m_.width, input);
    tokens_ = state_.rows();
    if (m_.embedding_norm) norm(state_);
    readings_.write(0, Signal::x_out, state_);
    if (m_.placement.two_streams) {
      readings_.write(0, Signal::r_out, state_);
      state_ = state_.replicate(2, 1).eval();
    }
    for (int l = 0; l < m_.sublayers(); ++l) {
      step(l);
      on_work_(1.0);
    }
    return readings_.take();
  }

 private:
  void norm(Eigen::Ref<Matrix> x) const { normalise(x, m_.norm, m_.gamma, m_.norm_eps, m_.width); }

  /// T1, and the second stream r⁺ = r + βb beside it.
  void step(int l) {
    const SublayerRule rule = rule_under(fault_, m_, l);
    const Index frame = state_.cols();
    const Matrix x = state_.topRows(tokens_);
    readings_.write(l, Signal::x_in, x);
    Matrix a = x;
    if (rule.norm_a) norm(a);
    a *= rule.input_gain;
    readings_.write(l, Signal::A_out, a);
    Matrix branch = module(l, a, frame);
    readings_.write(l, Signal::f_out, branch);
    if (rule.norm_b) norm(branch);
    branch *= std::sqrt(branch_factor(fault_, m_, l));
    readings_.write(l, Signal::B_out, branch);
    readings_.write_branch(l, rule, x, branch);
    state_ = widened(state_, branch.cols());
    auto stream = state_.topRows(tokens_);
    stream = rule.alpha * stream + rule.beta * branch;
    if (rule.norm_c) norm(stream);
    readings_.write(l + 1, Signal::x_out, stream);
    if (m_.placement.two_streams) {
      state_.bottomRows(tokens_) += rule.beta * branch;
      readings_.write(l + 1, Signal::r_out, state_.bottomRows(tokens_));
    }
    state_ = compacted(state_);
  }

  /// f of T1: its output in the state's frame and beyond.
  Matrix module(int l, const Matrix& a, Index frame) const {
    // With two streams the frame may have twice the directions that one of them needs.
    const Matrix input = 2 * a.cols() > 3 * tokens_ ? square_root(a) : a;
    NormalStream stream({stream_.seed, stream_.replicate, static_cast<std::uint64_t>(l)});
    if (!ModelSpec::is_attention(l)) {
      return independent_features(mlp_root(spec_, l / 2, input, stream), frame, m_.width, stream);
    }
    const Matrix root = std::sqrt(attention_factor(fault_)) * attention_root(spec_, l / 2, input, stream);
    return independent_features(root, frame, m_.width, stream);
  }

  const StackSpec& spec_;
  const ModelSpec& m_;
  Fault fault_;
  ChainStream stream_;
  const OnWork& on_work_;
  Readings readings_;
  Matrix state_;  // [T, r], or [2T, r]: the stream above ResiDual's second stream
  Index tokens_ = 0;
};

}  // namespace

Profile gram_chain(const StackSpec& spec, const std::vector<int>& ids, const GramReplicate& replicate) {
  if (spec.scales != nullptr)
    throw std::logic_error("the chain of Gram matrices (T25) has no gains of single channels");
  return Chain(spec, replicate).run(ids);
}

}  // namespace periscope::theory
