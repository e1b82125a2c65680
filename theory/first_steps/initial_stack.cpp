#include "theory/first_steps/initial_stack.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <cmath>
#include <stdexcept>

#include "sim/spec/weight.h"
#include "theory/predict/gradient_streams.h"
#include "theory/predict/kernel_streams.h"
#include "theory/predict/module_kernels.h"

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

Vector ones(Index n) { return Vector::Ones(n); }

Matrix scaled(const Matrix& k, const Vector& by) { return by.asDiagonal() * k * by.asDiagonal(); }

/// A k Aᵀ of block-diagonal patterns.
Sampled sandwich(const SequenceAttention::Patterns& a, const Sampled& k, const SequenceAttention& attention) {
  const Sampled left = attention.mixed(a, k);
  return attention.mixed(a, left.transpose());
}

/// Aᵀ g A.
Sampled sandwich_back(const SequenceAttention::Patterns& a, const Sampled& g, const SequenceAttention& attention) {
  const Sampled left = attention.mixed_back(a, g);
  return attention.mixed_back(a, left.transpose());
}

/// The passes over a stack before training.
class InitialPass {
 public:
  InitialPass(const StackSpec& spec, const TrainingTokens& tokens, const StepSamples& samples)
      : spec_(spec), tokens_(tokens), samples_(samples), norm_(norm_use(spec.model)) {}

  InitialStack run() {
    forward();
    loss();
    backward();
    for (double& square : stack_.gradient_norm) square = std::sqrt(square);
    return std::move(stack_);
  }

 private:
  [[nodiscard]] Index all() const { return tokens_.all(); }
  [[nodiscard]] Index trained() const { return tokens_.trained(); }
  [[nodiscard]] double variance(int layer, Weight weight) const {
    const double sigma = entry_stddev(spec_, layer, weight);
    return sigma * sigma;
  }
  [[nodiscard]] Vector slope(const ChannelKernel& x) const {
    return norm_slope(norm_trace(x.total, norm_), norm_, spec_.model.gamma);
  }
  [[nodiscard]] ChannelKernel normed(const ChannelKernel& x) const {
    return normalised(x, norm_, Gain{.all = spec_.model.gamma});
  }
  [[nodiscard]] ChannelKernel plain(const Matrix& k) const {
    return {TokenKernel::of_independent_features(k, spec_.model.width), {}};
  }

  void forward() {
    const ModelSpec& m = spec_.model;
    stack_.branches.resize(static_cast<std::size_t>(m.sublayers()));
    ChannelKernel x = stack_input(spec_, tokens_.ids);
    stack_.embedding_slope = m.embedding_norm ? slope(x) : ones(all());
    if (m.embedding_norm) x = normed(x);
    stack_.stream_input = x.total.product.cast<float>();
    const StreamEnds ends = m.ends();
    KernelStreams streams(x, ends.streams(), m.width);
    for (int s = 0; s < m.steps(); ++s) {
      const Step step = step_under(Fault::none, m, s);
      std::vector<ChannelKernel> written;
      ChannelKernel shared;
      for (const Branch& branch : step.branches) {
        InitialBranch& b = stack_.branches[static_cast<std::size_t>(branch.sublayer)];
        ChannelKernel a = shared;
        if (branch.shares_input) {
          b.slope_a = stack_.branches[static_cast<std::size_t>(step.branches.front().sublayer)].slope_a;
        } else {
          const ChannelKernel read = streams.sum(branch.reads);
          b.slope_a = branch.input_gain * (branch.norm_a ? slope(read) : ones(all()));
          a = branch.norm_a ? normed(read) : read;
          a = combined(branch.input_gain, a, 0.0, a);
        }
        if (step.branches.size() > 1) shared = a;
        b.input = a.total.product.cast<float>();
        b.input_factor = factor_of(b.input);
        const ChannelKernel f = branch.kind == ModuleKind::mlp
                                    ? mlp_kernel(spec_, branch.layer(), plain(a.total.product))
                                    : plain(attention_output(branch.layer(), b));
        b.slope_b = branch.norm_b ? slope(f) : ones(all());
        ChannelKernel out = branch.norm_b ? normed(f) : f;
        b.output = out.total.product.cast<float>();
        written.push_back(std::move(out));
      }
      streams.add(step, written);
      stack_.slope_c.emplace_back(streams.count(), ones(all()));
      for (std::size_t i = 0; i < streams.count(); ++i) {
        if (!step.norm_c[i]) continue;
        const Vector by = slope(streams[i]);
        stack_.slope_c.back()[i] = by;
        streams.normalise(i, normed(streams[i]), by);
      }
    }
    const ChannelKernel last = streams.sum(ends.normed);
    stack_.final_slope = m.final_norm ? slope(last) : ones(all());
    Matrix output = (m.final_norm ? normed(last) : last).total.product;
    if (ends.has_plain()) {
      const Matrix cross = streams.between(ends.plain, ends.normed) * stack_.final_slope.asDiagonal();
      output += streams.sum(ends.plain).total.product + cross + cross.transpose();
    }
    stack_.output = output.cast<float>();
    stack_.output_factor = factor_of(stack_.output);
  }

  /// T4 with sampled heads.
  Matrix attention_output(int layer, const InitialBranch& branch) {
    const ModelSpec& m = spec_.model;
    HeadDrawer drawer(spec_, layer, branch, tokens_.sequence, samples_);
    Sampled sum = Sampled::Zero(all(), all());
    for (int g = 0; g < drawer.groups(); ++g) {
      const HeadGroup group = drawer.next(false);
      for (const SequenceAttention::Scores& s : group.scores) {
        sum += sandwich(s.pattern, branch.input, drawer.attention());
      }
    }
    const double heads = static_cast<double>(drawer.groups()) * drawer.heads_per_group();
    const double gain = variance(layer, Weight::v) * m.width * variance(layer, Weight::o) * m.query_width();
    const Matrix out = (gain / heads) * sum.cast<double>();
    return 0.5 * (out + out.transpose());
  }

  void loss() {
    const ModelSpec& m = spec_.model;
    const double sigma = entry_stddev(spec_, 0, Weight::unembedding);
    NormalStream numbers = samples_.numbers(m.sublayers(), StepSamples::Purpose::logits);
    stack_.logits = fields_of(sigma * std::sqrt(static_cast<double>(m.width)), stack_.output_factor,
                              numbers.normals_float(all(), m.vocab));
    stack_.logit_gradient = logit_gradient(stack_.logits.topRows(trained()), tokens_, 0);
    stack_.gradient_norm.assign(static_cast<std::size_t>(tokens_.steps), 0.0);
    add_norm(m.width, stack_.output, stack_.logit_gradient * stack_.logit_gradient.transpose());
  }

  /// Adds n Σ_tt' K_in G_out of a matrix, G_out summed over its output's entries, to every batch's squared norm.
  void add_norm(double fan_in, const Sampled& input, const Sampled& output) {
    for (Index b = 0; b < tokens_.steps; ++b) {
      const Index first = b * tokens_.batch;
      stack_.gradient_norm[static_cast<std::size_t>(b)] +=
          fan_in * input.block(first, first, tokens_.batch, tokens_.batch)
                       .cwiseProduct(output.block(first, first, tokens_.batch, tokens_.batch))
                       .sum();
    }
  }

  void backward() {
    const ModelSpec& m = spec_.model;
    const StreamEnds ends = m.ends();
    const auto streams = static_cast<std::size_t>(ends.streams());
    const double sigma = entry_stddev(spec_, 0, Weight::unembedding);
    const Vector final_slope = stack_.final_slope.head(trained());
    // Of one channel k of the output: Σ_v U_vk ∂loss/∂logit_v.
    NormalStream numbers = samples_.numbers(m.sublayers(), StepSamples::Purpose::gradients);
    stack_.unembedding = static_cast<float>(sigma) * numbers.normals_float(m.vocab, samples_.channels);
    const Sampled top = stack_.logit_gradient * stack_.unembedding;
    const Matrix kernel = (sigma * sigma) * (stack_.logit_gradient * stack_.logit_gradient.transpose()).cast<double>();
    GradientStreams g(kernel, final_slope.asDiagonal() * kernel, scaled(kernel, final_slope), ends);
    std::vector<Sampled> channels(streams);
    for (std::size_t i = 0; i < streams; ++i) {
      const Eigen::VectorXf by = (ends.plain[i] + ends.normed[i] * final_slope.array()).cast<float>();
      channels[i] = by.asDiagonal() * top;
    }
    for (int s = m.steps() - 1; s >= 0; --s) {
      const Step step = step_under(Fault::none, m, s);
      const auto at = static_cast<std::size_t>(s);
      for (std::size_t i = 0; i < streams; ++i) {
        if (!step.norm_c[i]) continue;
        const Vector by = stack_.slope_c[at][i].head(trained());
        g.scale(i, by);
        channels[i] = by.cast<float>().asDiagonal() * channels[i];
      }
      std::vector<Matrix> inputs;
      for (const Branch& branch : step.branches) {
        InitialBranch& b = stack_.branches[static_cast<std::size_t>(branch.sublayer)];
        const Matrix written = scaled(g.sum(branch.writes), b.slope_b.head(trained()));
        b.gradient = written.cast<float>();
        b.gradients = Sampled::Zero(trained(), samples_.channels);
        for (std::size_t i = 0; i < streams; ++i) {
          if (branch.writes[i] != 0.0) b.gradients += static_cast<float>(branch.writes[i]) * channels[i];
        }
        b.gradients = b.slope_b.head(trained()).cast<float>().asDiagonal() * b.gradients;
        inputs.push_back(branch.kind == ModuleKind::mlp ? mlp_back(branch.layer(), b, written)
                                                        : attention_back(branch.layer(), b));
      }
      for (std::size_t i = 1; i < step.branches.size(); ++i) {
        if (step.branches[i].shares_input) inputs.front() += inputs[i];
      }
      std::vector<Matrix> read;
      std::vector<Sampled> before(streams, Sampled::Zero(trained(), samples_.channels));
      for (std::size_t i = 0; i < streams; ++i) {
        for (std::size_t k = 0; k < streams; ++k) {
          if (step.mixing[k][i] != 0.0) before[i] += static_cast<float>(step.mixing[k][i]) * channels[k];
        }
      }
      for (std::size_t i = 0; i < step.branches.size(); ++i) {
        const Branch& branch = step.branches[i];
        if (branch.shares_input) {
          read.emplace_back();
          continue;
        }
        InitialBranch& b = stack_.branches[static_cast<std::size_t>(branch.sublayer)];
        read.push_back(scaled(inputs[i], b.slope_a.head(trained())));
        NormalStream own = samples_.numbers(branch.sublayer, StepSamples::Purpose::gradients);
        b.input_gradients =
            fields_of(1.0, factor_of(inputs[i].cast<float>()), own.normals_float(trained(), samples_.channels));
        const Sampled sample = b.slope_a.head(trained()).cast<float>().asDiagonal() * b.input_gradients;
        for (std::size_t j = 0; j < streams; ++j) {
          if (branch.reads[j] != 0.0) before[j] += static_cast<float>(branch.reads[j]) * sample;
        }
      }
      g.back(step, read);
      channels = std::move(before);
    }
    add_norm_of_embedding(scaled(g.sum(std::vector<double>(streams, 1.0)), stack_.embedding_slope.head(trained())));
  }

  /// Adds the embedding's part, whose rows get the gradients of all tokens that look them up: `gradient` [trained,
  /// trained] of what the table gives, per channel.
  void add_norm_of_embedding(const Matrix& gradient) {
    const ModelSpec& m = spec_.model;
    Sampled same = Sampled::Zero(trained(), trained());
    for (Index s = 0; s < trained(); ++s) {
      for (Index t = 0; t < trained(); ++t) {
        same(s, t) = tokens_.ids[static_cast<std::size_t>(s)] == tokens_.ids[static_cast<std::size_t>(t)] ? 1.0F : 0.0F;
      }
    }
    add_norm(m.width * m.embedding.scale * m.embedding.scale, same, gradient.cast<float>());
  }

  /// T10, per channel.
  Matrix mlp_back(int layer, const InitialBranch& b, const Matrix& written) {
    const ModelSpec& m = spec_.model;
    const Activation activation = activation_of(m.mlp);
    const Matrix input = b.input.topLeftCorner(trained(), trained()).cast<double>();
    const Matrix cotangent = variance(layer, Weight::down) * m.width * written;
    const double u = variance(layer, Weight::up);
    const Matrix up = u * m.width * input;
    const Sampled in = b.input.topLeftCorner(trained(), trained());
    if (!is_gated(m.mlp)) {
      const Matrix du = derivative_kernel(activation, up).cwiseProduct(cotangent);
      add_norm(m.mlp_width, activation_kernel(activation, up).cast<float>(), (m.width * written).cast<float>());
      add_norm(m.width, in, (m.mlp_width * du).cast<float>());
      return m.mlp_width * u * du;
    }
    const double w = variance(layer, Weight::gate);
    const Matrix gate = w * m.width * input;
    const Matrix phi = activation_kernel(activation, gate);
    const Matrix du = phi.cwiseProduct(cotangent);
    const Matrix dgate = derivative_kernel(activation, gate).cwiseProduct(up).cwiseProduct(cotangent);
    add_norm(m.mlp_width, phi.cwiseProduct(up).cast<float>(), (m.width * written).cast<float>());
    add_norm(m.width, in, (m.mlp_width * (du + dgate)).cast<float>());
    return m.mlp_width * (u * du + w * dgate);
  }

  /// T9 with sampled heads, per channel.
  Matrix attention_back(int layer, const InitialBranch& b) {
    const ModelSpec& m = spec_.model;
    HeadDrawer drawer(spec_, layer, b, tokens_.sequence, samples_);
    const SequenceAttention& attention = drawer.attention();
    const double o = entry_stddev(spec_, layer, Weight::o) * std::sqrt(static_cast<double>(m.width));
    const Sampled factor = factor_of(b.gradient);
    NormalStream cotangents = samples_.numbers(2 * layer, StepSamples::Purpose::cotangents);
    Sampled value = Sampled::Zero(trained(), trained());
    Sampled query = value;
    Sampled key = value;
    Sampled mixed_input = value;
    const Sampled input = b.input.topLeftCorner(trained(), trained());
    for (int g = 0; g < drawer.groups(); ++g) {
      const HeadGroup group = drawer.next(true);
      Sampled dk = Sampled::Zero(trained(), m.head_dim);
      for (std::size_t h = 0; h < group.scores.size(); ++h) {
        SequenceAttention::Scores scores = group.scores[h];
        const auto sequences = static_cast<std::size_t>(trained() / tokens_.sequence);
        scores.pattern.resize(sequences);
        value += sandwich_back(scores.pattern, b.gradient, attention);
        mixed_input += sandwich(scores.pattern, input, attention);
        const Sampled beta = fields_of(o, factor, cotangents.normals_float(trained(), m.head_dim));
        const SequenceAttention::Patterns dz = attention.score_gradient(scores, beta, group.v);
        const Sampled dq =
            attention.back(head_of(group.q[h]), attention.mixed(dz, group.k.rotated.topRows(trained())), m.heads);
        dk += attention.mixed_back(dz, group.q[h].rotated.topRows(trained()));
        query += dq * dq.transpose();
      }
      dk = attention.back(head_of(group.k), dk, m.kv_heads);
      key += dk * dk.transpose();
    }
    const double heads = static_cast<double>(drawer.groups()) * drawer.heads_per_group();
    const Matrix dv = (o * o * drawer.heads_per_group() / heads) * value.cast<double>();
    const Matrix dq = query.cast<double>() / (heads * m.head_dim);
    const Matrix dk = key.cast<double>() / (static_cast<double>(drawer.groups()) * m.head_dim);
    add_norm(m.width, input, (m.query_width() * dq + m.key_width() * (dk + dv)).cast<float>());
    add_norm(m.query_width(), mixed_input,
             static_cast<float>(variance(layer, Weight::v) * m.width * m.width / heads) * b.gradient);
    return m.query_width() * variance(layer, Weight::q) * dq +
           m.key_width() * (variance(layer, Weight::k) * dk + variance(layer, Weight::v) * dv);
  }

  [[nodiscard]] SequenceAttention::Rotated head_of(const SequenceAttention::Rotated& r) const {
    return {.rotated = {},
            .normalised = r.normalised.topRows(trained()),
            .inverse = r.inverse.size() > 0 ? Eigen::VectorXf(r.inverse.head(trained())) : Eigen::VectorXf()};
  }

  const StackSpec& spec_;
  const TrainingTokens& tokens_;
  const StepSamples& samples_;
  NormUse norm_;
  InitialStack stack_;
};

}  // namespace

Sampled logit_gradient(Sampled p, const TrainingTokens& tokens, Index first) {
  p.colwise() -= p.rowwise().maxCoeff().eval();
  p = p.array().exp();
  p.array().colwise() /= p.rowwise().sum().array().eval();
  for (Index t = 0; t < p.rows(); ++t) p(t, tokens.labels[static_cast<std::size_t>(first + t)]) -= 1.0F;
  return p / static_cast<float>(tokens.batch);
}

InitialStack initial_stack(const StackSpec& spec, const TrainingTokens& tokens, const StepSamples& samples) {
  return InitialPass(spec, tokens, samples).run();
}

double entry_stddev(const StackSpec& spec, int layer, Weight weight) { return stddev_of(spec, layer, weight); }

namespace {

/// Streams of one chain: what they are for, of which sublayer.
NormalStream stream_of(const StepSamples& samples, std::uint64_t use, int sublayer, std::uint64_t number) {
  const auto at = static_cast<std::uint64_t>(sublayer);
  return NormalStream(
      {.seed = samples.seed, .replicate = samples.replicate, .place = ((use + 1) << 60U) + (at << 32U) + number});
}

}  // namespace

NormalStream StepSamples::numbers(int sublayer, Purpose purpose) const {
  return stream_of(*this, 0, sublayer, static_cast<std::uint64_t>(purpose));
}

NormalStream StepSamples::fresh_numbers(int sublayer, int done) const {
  return stream_of(*this, 1, sublayer, static_cast<std::uint64_t>(done));
}

NormalStream StepSamples::row_numbers(int sublayer, int matrix) const {
  return stream_of(*this, 2, sublayer, static_cast<std::uint64_t>(matrix));
}

Sampled factor_of(const Sampled& k) {
  const float top = k.diagonal().size() > 0 ? k.diagonal().mean() : 0.0F;
  if (!(top > 0.0F)) return Sampled::Zero(k.rows(), k.cols());
  Matrix regular = (k / top).cast<double>();
  for (double jitter = 1e-6; jitter < 1.0; jitter *= 10.0) {
    regular.diagonal().array() += jitter;
    const Eigen::LLT<Matrix> factor(regular);
    if (factor.info() == Eigen::Success) return std::sqrt(top) * Matrix(factor.matrixL()).cast<float>();
  }
  throw std::logic_error("a kernel of the first steps has no factor");
}

Sampled fields_of(double spread, const Sampled& factor, const Sampled& normals) {
  Sampled fields = factor.triangularView<Eigen::Lower>() * normals;
  fields *= static_cast<float>(spread);
  return fields;
}

Sampled clipped_factor_of(const Matrix& k) {
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(0.5 * (k + k.transpose()));
  return (solver.eigenvectors() * solver.eigenvalues().cwiseMax(0.0).cwiseSqrt().asDiagonal()).cast<float>();
}

TrainingTokens tokens_of(const StackSpec& spec, const FirstStepsInput& input, int run) {
  const TrainingBatches& batches = input.runs[static_cast<std::size_t>(run)];
  TrainingTokens tokens{.ids = {}, .labels = {}, .sequence = spec.input.tokens};
  for (std::size_t s = 0; s < input.optimizer.rates.size(); ++s) {
    tokens.ids.insert(tokens.ids.end(), batches.inputs[s].begin(), batches.inputs[s].end());
    tokens.labels.insert(tokens.labels.end(), batches.labels[s].begin(), batches.labels[s].end());
  }
  tokens.steps = static_cast<Index>(input.optimizer.rates.size());
  tokens.batch = static_cast<Index>(batches.inputs.front().size());
  tokens.ids.insert(tokens.ids.end(), input.ids.begin(), input.ids.end());
  tokens.labels.insert(tokens.labels.end(), input.labels.begin(), input.labels.end());
  return tokens;
}

HeadDrawer::HeadDrawer(const StackSpec& spec, int layer, const InitialBranch& branch, Index sequence,
                       const StepSamples& samples)
    : spec_(spec),
      layer_(layer),
      branch_(branch),
      attention_(spec.model, layer, sequence),
      projections_(samples.numbers(2 * layer, StepSamples::Purpose::projections)),
      values_(samples.numbers(2 * layer, StepSamples::Purpose::values)) {
  const ModelSpec& m = spec.model;
  per_group_ = m.heads / m.kv_heads;
  groups_ = std::max(2, samples.hidden / (m.head_dim * per_group_));
  const double q = entry_stddev(spec, layer, Weight::q);
  const double k = entry_stddev(spec, layer, Weight::k);
  query_square_ = static_cast<float>(q * q * m.width) * branch.input.diagonal();
  key_square_ = static_cast<float>(k * k * m.width) * branch.input.diagonal();
}

HeadGroup HeadDrawer::next(bool values) {
  const ModelSpec& m = spec_.model;
  const Index e = m.head_dim;
  const auto spread = [&](Weight weight) {
    return static_cast<float>(entry_stddev(spec_, layer_, weight) * std::sqrt(static_cast<double>(m.width)));
  };
  const Index tokens = branch_.input.rows();
  const Sampled fields = fields_of(1.0, branch_.input_factor, projections_.normals_float(tokens, (per_group_ + 1) * e));
  HeadGroup group;
  group.k_projection = spread(Weight::k) * fields.leftCols(e);
  group.k = attention_.rotated(group.k_projection, key_square_, m.kv_heads);
  for (int h = 0; h < per_group_; ++h) {
    group.q_projection.emplace_back(spread(Weight::q) * fields.middleCols((h + 1) * e, e));
    group.q.push_back(attention_.rotated(group.q_projection.back(), query_square_, m.heads));
    group.scores.push_back(attention_.scores(group.q.back().rotated, group.k.rotated));
  }
  if (values) group.v = fields_of(spread(Weight::v), branch_.input_factor, values_.normals_float(tokens, e));
  return group;
}

}  // namespace periscope::theory
