#include "theory/width/gram_chain.h"

#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

#include "sim/spec/weight.h"
#include "theory/norms/norm_law.h"
#include "theory/width/gram_signal.h"

namespace periscope::theory {
namespace {

Matrix side_by_side(const Matrix& a, const Matrix& b) {
  Matrix all(a.rows(), a.cols() + b.cols());
  all << a, b;
  return all;
}

/// Returns x in a frame of `frame` directions; coordinates along new directions are 0.
Matrix widened(const Matrix& x, Index frame) { return side_by_side(x, Matrix::Zero(x.rows(), frame - x.cols())); }

/// Returns the one-hot encoding of the ids [T, number of different ids].
Matrix one_hot(const std::vector<int>& ids) {
  std::map<int, Index> column;
  for (const int id : ids) column.try_emplace(id, static_cast<Index>(column.size()));
  Matrix rows = Matrix::Zero(static_cast<Index>(ids.size()), static_cast<Index>(column.size()));
  for (std::size_t t = 0; t < ids.size(); ++t) rows(static_cast<Index>(t), column.at(ids[t])) = 1.0;
  return rows;
}

/// Returns R with R Rᵀ the token covariance of a feature of the stack's input. A projected table is sampled first.
Matrix input_root(const StackSpec& spec, const std::vector<int>& ids, StreamKey stream) {
  const InputSpec& input = spec.input;
  const double rms = std::sqrt(input.second_moment);
  const Matrix per_token = Matrix::Identity(input.tokens, input.tokens);
  const Matrix common = Matrix::Ones(input.tokens, 1);
  if (ids.empty()) {
    return rms * side_by_side(std::sqrt(1.0 - input.correlation) * per_token, std::sqrt(input.correlation) * common);
  }
  const EmbeddingSpec& e = spec.model.embedding;
  Matrix root = e.scale * stddev_of(spec, 0, Weight::embedding) * one_hot(ids);
  if (spec.model.projects_embedding()) {
    stream.place = place::table;
    NormalStream table(stream);
    const Matrix rows = independent_features(square_root(root), 1, spec.model.embedding_width(), table);
    root = stddev_of(spec, 0, Weight::project_in) * rows;
  }
  if (e.positions > 0) root = side_by_side(root, stddev_of(spec, 0, Weight::positions) * per_token);
  if (e.token_types > 0) root = side_by_side(root, stddev_of(spec, 0, Weight::token_types) * common);
  return root;
}

/// Writes the statistics of one replicate into a profile.
class Readings {
 public:
  explicit Readings(const ModelSpec& model) : model_(model) {}

  /// If a signal has several parts, written one after another, the profile holds their mean.
  void write(int index, Signal signal, const Eigen::Ref<const Matrix>& x, int parts = 1) {
    const SignalReading r = read_signal(x, model_.width);
    const auto add = [&](Statistic statistic, double value) {
      double& mean = entry(statistic, signal, index);
      mean = parts == 1 ? value : (std::isnan(mean) ? 0.0 : mean) + value / parts;
    };
    add(Statistic::second_moment, r.second_moment);
    add(Statistic::variance, r.variance);
    add(Statistic::mean, r.mean);
    add(Statistic::token_cosine, r.token_cosine);
  }

  void write_branch(int sublayer, double scale, const Eigen::Ref<const Matrix>& stream, const Matrix& branch) {
    const Index frame = stream.cols();  // new directions of the branch are orthogonal to the stream
    const Vector xx = stream.rowwise().squaredNorm();
    const Vector bb = branch.rowwise().squaredNorm();
    const Vector bx = branch.leftCols(frame).cwiseProduct(stream).rowwise().sum();
    entry(Statistic::branch_ratio, Signal::B_out, sublayer) = scale * bb.cwiseQuotient(xx).cwiseSqrt().mean();
    entry(Statistic::branch_cosine, Signal::B_out, sublayer) = bx.cwiseQuotient(bb.cwiseProduct(xx).cwiseSqrt()).mean();
  }

  Profile take() { return std::move(profile_); }

 private:
  double& entry(Statistic statistic, Signal signal, int index) {
    return profile_.entry(statistic, signal, model_.curve_length(signal), index);
  }

  const ModelSpec& model_;
  Profile profile_;
};

/// State and transitions of the chain.
class Chain {
 public:
  Chain(const StackSpec& spec, const GramReplicate& r)
      : spec_(spec),
        m_(spec.model),
        ends_(m_.ends()),
        fault_(r.fault),
        stream_{r.seed, r.index, place::input},
        on_work_(r.on_work),
        readings_(m_) {}

  Profile run(const std::vector<int>& ids) {
    NormalStream input(stream_);
    const Matrix root = square_root(input_root(spec_, ids, stream_));
    state_ = independent_features(root, 1, m_.width, input);
    tokens_ = state_.rows();
    if (m_.embedding_norm) norm(state_);
    if (ends_.streams() > 1) state_ = state_.replicate(ends_.streams(), 1).eval();
    write(0);
    for (int s = 0; s < m_.steps(); ++s) {
      step(s);
      on_work_(1.0);
    }
    return readings_.take();
  }

 private:
  void norm(Eigen::Ref<Matrix> x) const { normalise(x, norm_use(m_), m_.gamma); }
  [[nodiscard]] auto stream(std::size_t i) { return state_.middleRows(static_cast<Index>(i) * tokens_, tokens_); }

  void write(int depth) {
    for (std::size_t i = 0; i < ends_.names.size(); ++i) {
      if (ends_.names[i]) readings_.write(depth, *ends_.names[i], stream(i), ends_.parts_of_stream());
    }
  }

  /// Returns Σ_j weights_j x_j in coordinates, summed in the order of j.
  Matrix sum(const std::vector<double>& weights, const Matrix& state) const {
    Matrix all = Matrix::Zero(tokens_, state.cols());
    for (std::size_t j = 0; j < weights.size(); ++j) {
      if (weights[j] != 0.0) all += weights[j] * state.middleRows(static_cast<Index>(j) * tokens_, tokens_);
    }
    return all;
  }

  /// Runs a step (sim/spec/block.h).
  void step(int index) {
    const Step step = step_under(fault_, m_, index);
    std::vector<Matrix> written;
    Matrix shared;
    for (const Branch& b : step.branches) {
      const int l = b.sublayer;
      const Index frame = state_.cols();
      const Matrix x = sum(b.shares_input ? step.branches.front().reads : b.reads, state_);
      readings_.write(l, Signal::x_in, x);
      Matrix a = b.shares_input ? widened(shared, frame) : x;
      if (!b.shares_input) {
        if (b.norm_a) norm(a);
        a *= b.input_gain;
      }
      if (step.branches.size() > 1) shared = a;
      readings_.write(l, Signal::A_out, a);
      Matrix branch = module(b, a, frame);
      readings_.write(l, Signal::f_out, branch);
      if (b.norm_b) norm(branch);
      branch *= std::sqrt(branch_factor(fault_, m_, l));
      readings_.write(l, Signal::B_out, branch);
      readings_.write_branch(l, branch_scale(step, b), x, branch);
      state_ = widened(state_, branch.cols());
      written.push_back(std::move(branch));
    }
    const Matrix before = state_;
    for (std::size_t i = 0; i < ends_.names.size(); ++i) {
      auto x = stream(i);
      x = sum(step.mixing[i], before);
      for (std::size_t b = 0; b < written.size(); ++b) {
        x.leftCols(written[b].cols()) += step.branches[b].writes[i] * written[b];
      }
      if (step.norm_c[i]) norm(x);
    }
    write(index + 1);
    state_ = compacted(state_);
  }

  /// Samples the module's output (f in T1), as coordinates in the frame of the state plus new directions.
  Matrix module(const Branch& branch, const Matrix& a, Index frame) const {
    const int l = branch.sublayer;
    // With several streams the frame may have twice as many directions as one stream needs.
    const Matrix input = 2 * a.cols() > 3 * tokens_ ? square_root(a) : a;
    NormalStream stream({stream_.seed, stream_.replicate, static_cast<std::uint64_t>(l)});
    if (branch.kind == ModuleKind::mlp) {
      return independent_features(mlp_root(spec_, l / 2, input, stream), frame, m_.width, stream);
    }
    return independent_features(attention_root(spec_, l / 2, input, tokens_, stream), frame, m_.width, stream);
  }

  const StackSpec& spec_;
  const ModelSpec& m_;
  StreamEnds ends_;
  Fault fault_;
  StreamKey stream_;
  const OnWork& on_work_;
  Readings readings_;
  Matrix state_;  // [n T, r]: n streams, concatenated by rows
  Index tokens_ = 0;
};

}  // namespace

Profile gram_chain(const StackSpec& spec, const std::vector<int>& ids, const GramReplicate& replicate) {
  if (spec.scales != nullptr) throw std::logic_error("unsupported in the finite-width chain (T25): given scales");
  return Chain(spec, replicate).run(ids);
}

}  // namespace periscope::theory
