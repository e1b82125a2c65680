#include "theory/first_steps/moved_stack.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sim/spec/block.h"
#include "theory/first_steps/moved_streams.h"
#include "theory/predict/fault.h"

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

Sampled zeros(Index rows, Index cols) { return Sampled::Zero(rows, cols); }

Vector slope_of(const Vector& square, const NormUse& norm, double gamma) {
  const TokenKernel kernel = TokenKernel::of_independent_features(Matrix(square.asDiagonal()), norm.width);
  return norm_slope(norm_trace(kernel, norm), norm, gamma);
}

/// a/b of every token; 0 where b is, of a norm with gain 0, behind which there is nothing to keep.
Vector ratio(const Vector& a, const Vector& b) { return (b.array() == 0.0).select(0.0, a.array() / b.array()); }

Vector mean_square(const Sampled& rows) {
  return (rows.rowwise().squaredNorm() / static_cast<float>(rows.cols())).cast<double>();
}

class MovedStack {
 public:
  MovedStack(const StackSpec& spec, const TrainingTokens& tokens, const OptimizerLaw& optimizer,
             const StepSamples& samples, StepFault fault, const std::function<void(double)>& on_work)
      : spec_(spec),
        tokens_(tokens),
        samples_(samples),
        fault_(fault),
        on_work_(on_work),
        norm_(norm_use(spec.model)),
        ends_(spec.model.ends()),
        initial_(initial_stack(spec, tokens, samples)),
        law_(optimizer, clips(optimizer), fault == StepFault::sign_constant ? std::sqrt(std::numbers::pi / 2.0) : 1.0),
        context_{spec_, tokens_, samples_, law_, fault_},
        unembedding_history_(tokens, samples.channels),
        input_gradient_(tokens.trained(), samples.channels),
        embedding_slope_(tokens.trained()),
        final_slope_(tokens.trained()),
        slope_a_(static_cast<std::size_t>(spec.model.sublayers()), Vector(tokens.trained())),
        slope_b_(slope_a_),
        slope_c_(static_cast<std::size_t>(spec.model.steps()),
                 std::vector<Vector>(static_cast<std::size_t>(ends_.streams()), Vector::Ones(tokens.trained()))) {
    NormalStream numbers = samples.numbers(spec.model.sublayers(), StepSamples::Purpose::channels);
    output_channels_ = fields_of(1.0, initial_.output_factor, numbers.normals_float(tokens.all(), samples.channels));
    for (int s = 0; s < spec.model.steps(); ++s) add_modules(s);
    unembedding_.before = std::move(initial_.logits);
    unembedding_.gradient = std::move(initial_.logit_gradient);
    unembedding_update_.emplace(context_, spec.model.sublayers(), 8, spec.model.vocab, 0.0);
  }

  std::vector<MovedReading> run() {
    std::vector<MovedReading> readings;
    for (Index done = 0; done <= tokens_.steps; ++done) {
      const TokensNow now{tokens_, done};
      reading_ = {};
      reading_.branch_cosine.assign(static_cast<std::size_t>(spec_.model.sublayers()), 0.0);
      reading_.branch_second_moment = reading_.branch_cosine;
      reading_.kept = reading_.branch_cosine;
      passed_.assign(static_cast<std::size_t>(spec_.model.sublayers()), {});
      passed_c_.assign(static_cast<std::size_t>(spec_.model.steps()),
                       std::vector<Passed>(static_cast<std::size_t>(ends_.streams())));
      MovedStreams x = begin(now);
      write(x);
      for (int s = 0; s < spec_.model.steps(); ++s) {
        x = step(s, x, now);
        write(x);
        on_work_(1.0);
      }
      loss(x, now);
      if (now.next() > 0) back(now);
      readings.push_back(std::move(reading_));
    }
    return readings;
  }

 private:
  [[nodiscard]] std::vector<double> clips(const OptimizerLaw& optimizer) const {
    std::vector<double> result;
    for (const double norm : initial_.gradient_norm) {
      result.push_back(optimizer.clip > 0.0 && norm > optimizer.clip ? optimizer.clip / norm : 1.0);
    }
    return result;
  }

  void add_modules(int index) {
    const Step step = step_under(Fault::none, spec_.model, index);
    for (const Branch& branch : step.branches) {
      const InitialBranch& initial = initial_.branches[static_cast<std::size_t>(branch.sublayer)];
      modules_.push_back(branch.kind == ModuleKind::mlp ? trained_mlp(context_, branch.layer(), initial)
                                                        : trained_attention(context_, branch.layer(), initial));
      of_sublayer_.push_back(branch.sublayer);
    }
  }
  /// Where a sublayer's module stands in the order of steps.
  [[nodiscard]] std::size_t place(int sublayer) const {
    return static_cast<std::size_t>(std::ranges::find(of_sublayer_, sublayer) - of_sublayer_.begin());
  }

  /// The tables' rows and the streams that begin with them.
  MovedStreams begin(const TokensNow& now) {
    const auto count = static_cast<std::size_t>(ends_.streams());
    const auto scale = static_cast<float>(spec_.model.embedding.scale);
    const Index rows = now.count();
    Sampled y = zeros(rows, samples_.channels);
    Sampled response = zeros(rows, now.trained());
    const Vector slope0 = now.rows_of(initial_.embedding_slope);
    const Sampled before = now.square_of(initial_.stream_input);
    Vector slope = slope0;
    const double left = law_.kept(now.done);
    if (now.done > 0) {
      std::vector<Sampled> sums;  // gradients of the rows that these tokens look up, of every step
      for (Index b = 0; b < now.done; ++b) {
        Sampled sum = zeros(rows, samples_.channels);
        for (Index s = 0; s < rows; ++s) {
          for (Index t = b * tokens_.batch; t < (b + 1) * tokens_.batch; ++t) {
            if (same_id(now.token(s), t)) sum.row(s) += scale * input_gradient_.row(t);
          }
        }
        sums.push_back(std::move(sum));
      }
      y = -scale * law_.taken_off(sums);
      if (spec_.model.embedding_norm) {
        const Vector square =
            left * left * ratio(before.diagonal().cast<double>(), slope0.cwiseAbs2()) + mean_square(y);
        slope = slope_of(square, norm_, spec_.model.gamma);
        y = slope.cast<float>().asDiagonal() * y;
      }
      for (Index s = 0; s < rows; ++s) {
        Matrix c(now.done, now.done);
        for (Index a = 0; a < now.done; ++a) {
          for (Index b = 0; b < now.done; ++b) {
            c(a, b) = sums[static_cast<std::size_t>(a)].row(s).dot(sums[static_cast<std::size_t>(b)].row(s)) /
                      static_cast<float>(samples_.channels);
          }
        }
        const Vector slopes = law_.moments(c).slope;
        for (Index t = 0; t < now.trained(); ++t) {
          if (!same_id(now.token(s), t)) continue;
          const double norms = spec_.model.embedding_norm ? slope(s) * embedding_slope_(t) : 1.0;
          response(s, t) = static_cast<float>(-scale * scale * norms * slopes(t / tokens_.batch));
        }
      }
    }
    embedding_slope_.segment(now.trained(), now.next()) = slope.head(now.next());
    const Vector keep = left * ratio(slope, slope0);
    MovedStreams x(count);
    const Matrix own = keep.asDiagonal() * before.cast<double>() * keep.asDiagonal();
    const Sampled cross = keep.cast<float>().asDiagonal() * now.rows_of(initial_.stream_input);
    for (std::size_t i = 0; i < count; ++i) {
      x.follows[i] = y;
      x.wanders[i] = zeros(rows, samples_.channels);
      for (std::size_t j = 0; j < count; ++j) {
        x.own[i][j] = own;
        x.cross[i][j] = cross;
        x.response[i][j] = response;
      }
    }
    return x;
  }

  [[nodiscard]] bool same_id(Index s, Index t) const {
    return tokens_.ids[static_cast<std::size_t>(s)] == tokens_.ids[static_cast<std::size_t>(t)];
  }

  [[nodiscard]] MovedInput nothing(const TokensNow& now) const {
    return {.own = Matrix::Zero(now.count(), now.count()),
            .cross = zeros(now.count(), tokens_.all()),
            .follows = zeros(now.count(), samples_.channels),
            .wanders = zeros(now.count(), samples_.channels),
            .response = zeros(now.count(), now.trained())};
  }

  /// What a branch reads of the streams, before its norm A; then behind it.
  [[nodiscard]] MovedInput read_of(const MovedStreams& x, const std::vector<double>& reads,
                                   const TokensNow& now) const {
    MovedInput in = nothing(now);
    for (std::size_t i = 0; i < x.count(); ++i) {
      if (reads[i] == 0.0) continue;
      in.follows += static_cast<float>(reads[i]) * x.follows[i];
      in.wanders += static_cast<float>(reads[i]) * x.wanders[i];
      for (std::size_t j = 0; j < x.count(); ++j) {
        const double both = reads[i] * reads[j];
        if (both == 0.0) continue;
        in.own += both * x.own[i][j];
        in.cross += static_cast<float>(both) * x.cross[i][j];
        in.response += static_cast<float>(both) * x.response[i][j];
      }
    }
    in.own += (in.follows * in.follows.transpose()).cast<double>() / static_cast<double>(samples_.channels);
    return in;
  }
  void through_norm(MovedInput& in, const Branch& branch, const InitialBranch& initial, const TokensNow& now) {
    const Vector ones = Vector::Ones(now.count());
    const Vector slope =
        branch.input_gain * (branch.norm_a ? slope_of(in.own.diagonal(), norm_, spec_.model.gamma) : ones);
    const Eigen::VectorXf left = slope.cast<float>();
    const Eigen::VectorXf right = initial.slope_a.cast<float>();
    in.own = slope.asDiagonal() * in.own * slope.asDiagonal();
    in.follows = left.asDiagonal() * in.follows;
    in.wanders = left.asDiagonal() * in.wanders;
    in.cross = left.asDiagonal() * in.cross * right.asDiagonal();
    Vector& own_times = slope_a_[static_cast<std::size_t>(branch.sublayer)];
    in.response = left.asDiagonal() * in.response * own_times.head(now.trained()).cast<float>().asDiagonal();
    own_times.segment(now.trained(), now.next()) = slope.head(now.next());
    if (branch.norm_a) passed_[static_cast<std::size_t>(branch.sublayer)].a = in.follows.topRows(now.next());
  }

  /// Mean over the held-out tokens of the correlation of a token's channels with what they were.
  [[nodiscard]] double kept_share(const MovedInput& in, const InitialBranch& initial, const TokensNow& now) const {
    double sum = 0.0;
    for (Index s = now.next(); s < now.count(); ++s) {
      const double before = initial.input(now.token(s), now.token(s));
      const double both = std::sqrt(in.own(s, s) * before);
      sum += both > 0.0 ? in.cross(s, now.token(s)) / both : 1.0;
    }
    return sum / static_cast<double>(tokens_.held_out());
  }

  /// B_out of a branch.
  [[nodiscard]] Written written_of(const MovedModule& module, const Branch& branch, const InitialBranch& initial,
                                   const Sampled& gradients, const TokensNow& now) {
    Written w;
    const Vector slope0 = now.rows_of(initial.slope_b);
    const Matrix before = now.square_of(initial.output).cast<double>();
    Vector keep = ratio(module.keep.cast<double>(), slope0);
    w.follows = module.response * gradients + module.taken;
    w.wanders = module.wanders;
    w.own = module.fresh + module.correction;
    w.response = module.response + module.taken_response;
    if (branch.norm_b) {
      const Vector square =
          before.diagonal().cwiseProduct(keep.cwiseAbs2()) + w.own.diagonal() + mean_square(w.follows);
      const Vector slope = slope_of(square, norm_, spec_.model.gamma);
      keep = keep.cwiseProduct(slope);
      w.follows = slope.cast<float>().asDiagonal() * w.follows;
      w.wanders = slope.cast<float>().asDiagonal() * w.wanders;
      w.own = slope.asDiagonal() * w.own * slope.asDiagonal();
      Vector& own_times = slope_b_[static_cast<std::size_t>(branch.sublayer)];
      w.response =
          slope.cast<float>().asDiagonal() * w.response * own_times.head(now.trained()).cast<float>().asDiagonal();
      own_times.segment(now.trained(), now.next()) = slope.head(now.next());
      passed_[static_cast<std::size_t>(branch.sublayer)].b = w.follows.topRows(now.next());
    }
    w.own += keep.asDiagonal() * before * keep.asDiagonal();
    w.cross = keep.cast<float>().asDiagonal() * now.rows_of(initial.output);
    return w;
  }

  MovedStreams step(int index, const MovedStreams& x, const TokensNow& now) {
    const Step step = step_under(Fault::none, spec_.model, index);
    const Index held = tokens_.held_out();
    std::vector<Written> written;
    MovedInput shared;
    Sampled read_follows;
    double read_square = 0.0;
    for (const Branch& branch : step.branches) {
      const auto l = static_cast<std::size_t>(branch.sublayer);
      const InitialBranch& initial = initial_.branches[l];
      if (!branch.shares_input) {
        shared = read_of(x, branch.reads, now);
        read_follows = shared.follows.bottomRows(held);
        read_square = shared.own.diagonal().tail(held).mean();
        through_norm(shared, branch, initial, now);
      }
      reading_.kept[l] = kept_share(shared, initial, now);
      const std::size_t at = place(branch.sublayer);
      const MovedModule module = modules_[at]->now(shared, now);
      Written w = written_of(module, branch, initial, modules_[at]->gradients(now), now);
      const auto follows = w.follows.bottomRows(held);
      const double square =
          w.own.diagonal().tail(held).mean() + follows.squaredNorm() / static_cast<double>(follows.size());
      reading_.branch_second_moment[l] = square;
      const double product = follows.cwiseProduct(read_follows).sum() / static_cast<double>(follows.size());
      reading_.branch_cosine[l] = product / std::sqrt(square * read_square);
      for (const auto& [weight, value] : module.update_square) reading_.update_square[weight].push_back(value);
      written.push_back(std::move(w));
    }
    MovedStreams next = added(step, x, written);
    for (std::size_t i = 0; i < x.count(); ++i) {
      if (!step.norm_c[i]) continue;
      const Vector slope = slope_of(next.kernel(i, i).diagonal(), norm_, spec_.model.gamma);
      Vector& own_times = slope_c_[static_cast<std::size_t>(index)][i];
      next.scale(i, slope, initial_.slope_c[static_cast<std::size_t>(index)][i], own_times.head(now.trained()));
      own_times.segment(now.trained(), now.next()) = slope.head(now.next());
      passed_c_[static_cast<std::size_t>(index)][i].c = next.follows[i].topRows(now.next());
    }
    return next;
  }

  void write(const MovedStreams& x) {
    const Index held = tokens_.held_out();
    double second = 0.0;
    double coherent = 0.0;
    double parts = 0.0;
    for (std::size_t i = 0; i < x.count(); ++i) {
      if (ends_.names[i] != Signal::x_out) continue;
      const auto follows = x.follows[i].bottomRows(held);
      const double follow = follows.squaredNorm() / static_cast<double>(follows.size());
      second += x.own[i][i].diagonal().tail(held).mean() + follow;
      coherent += follow;
      parts += 1.0;
    }
    reading_.second_moment.push_back(second / parts);
    reading_.coherent.push_back(coherent / parts);
  }

  void loss(const MovedStreams& x, const TokensNow& now) {
    const ModelSpec& m = spec_.model;
    const double variance = std::pow(entry_stddev(spec_, 0, Weight::unembedding), 2);
    const MovedInput normed = read_of(x, ends_.normed, now);
    const Vector slope =
        m.final_norm ? slope_of(normed.own.diagonal(), norm_, m.gamma) : Vector(Vector::Ones(now.count()));
    const auto left = [&](std::size_t i) { return Vector(ends_.plain[i] + ends_.normed[i] * slope.array()); };
    const auto right = [&](std::size_t j) {
      return Eigen::VectorXf((ends_.plain[j] + ends_.normed[j] * initial_.final_slope.array()).cast<float>());
    };
    const auto own_times = [&](std::size_t j) {
      return Vector(ends_.plain[j] + ends_.normed[j] * final_slope_.head(now.trained()).array());
    };
    MovedInput in = nothing(now);
    for (std::size_t i = 0; i < x.count(); ++i) {
      in.follows += left(i).cast<float>().asDiagonal() * x.follows[i];
      in.wanders += left(i).cast<float>().asDiagonal() * x.wanders[i];
      for (std::size_t j = 0; j < x.count(); ++j) {
        in.own += left(i).asDiagonal() * x.kernel(i, j) * left(j).asDiagonal();
        in.cross += left(i).cast<float>().asDiagonal() * x.cross[i][j] * right(j).asDiagonal();
        in.response += left(i).cast<float>().asDiagonal() * x.response[i][j] * own_times(j).cast<float>().asDiagonal();
      }
    }
    const FieldMover mover(initial_.output, in, unembedding_history_, now, law_, m.width, fault_);
    NormalStream fresh = samples_.fresh_numbers(m.sublayers(), static_cast<int>(now.done));
    const Sampled logits = mover.move(unembedding_, variance, samples_.row_numbers(m.sublayers(), 0), fresh).values;
    reading_.loss = loss_of(logits.bottomRows(tokens_.held_out()));
    if (now.next() == 0) return;
    unembedding_history_.append(in, now, mover.keep(), mover.true_cross());
    unembedding_.gradient.middleRows(now.trained(), now.next()) =
        logit_gradient(logits.topRows(now.next()), tokens_, now.trained());
    final_slope_.segment(now.trained(), now.next()) = slope.head(now.next());
    final_follows_ = slope.head(now.next()).cast<float>().asDiagonal() * normed.follows.topRows(now.next());
    output_now_ = mover.keep().head(now.next()).asDiagonal() * output_channels_.middleRows(now.trained(), now.next()) +
                  in.follows.topRows(now.next()) + in.wanders.topRows(now.next());
  }

  /// Takes off what a norm does not let back: the part of gradients along what comes out of it, of which y alone goes
  /// with them.
  static void project(Sampled& gradients, const Sampled& follows, double gamma) {
    if (follows.size() == 0 || gamma == 0.0) return;  // nothing comes out of a norm with gain 0, and goes back
    const Eigen::VectorXf along = gradients.cwiseProduct(follows).rowwise().mean() / static_cast<float>(gamma * gamma);
    gradients -= along.asDiagonal() * follows;
  }

  /// The gradients of the next batch's loss.
  void back(const TokensNow& now) {
    const ModelSpec& m = spec_.model;
    const Index first = now.trained();
    const Index count = now.next();
    const Sampled logits = unembedding_.gradient.middleRows(first, count);
    const Sampled out = static_cast<float>(law_.kept(now.done)) * (logits * initial_.unembedding) +
                        unembedding_update_->back(logits, logits, output_now_);
    Sampled normed = out;
    if (m.final_norm) {
      project(normed, final_follows_, m.gamma);
      normed = final_slope_.segment(first, count).cast<float>().asDiagonal() * normed;
    }
    std::vector<Sampled> g;
    for (std::size_t i = 0; i < static_cast<std::size_t>(ends_.streams()); ++i) {
      g.emplace_back(static_cast<float>(ends_.plain[i]) * out + static_cast<float>(ends_.normed[i]) * normed);
    }
    for (int s = m.steps() - 1; s >= 0; --s) {
      const Step step = step_under(Fault::none, m, s);
      const auto at = static_cast<std::size_t>(s);
      for (std::size_t i = 0; i < g.size(); ++i) {
        if (!step.norm_c[i]) continue;
        project(g[i], passed_c_[at][i].c, m.gamma);
        g[i] = slope_c_[at][i].segment(first, count).cast<float>().asDiagonal() * g[i];
      }
      std::vector<Sampled> before(g.size(), zeros(count, samples_.channels));
      for (std::size_t i = 0; i < g.size(); ++i) {
        for (std::size_t k = 0; k < g.size(); ++k) {
          if (step.mixing[k][i] != 0.0) before[i] += static_cast<float>(step.mixing[k][i]) * g[k];
        }
      }
      Sampled read = zeros(count, samples_.channels);  // of A_out, of the branches that share it
      for (std::size_t n = step.branches.size(); n-- > 0;) {
        const Branch& branch = step.branches[n];
        const auto l = static_cast<std::size_t>(branch.sublayer);
        Sampled written = zeros(count, samples_.channels);
        for (std::size_t i = 0; i < g.size(); ++i) {
          if (branch.writes[i] != 0.0) written += static_cast<float>(branch.writes[i]) * g[i];
        }
        if (branch.norm_b) {
          project(written, passed_[l].b, m.gamma);
          written = slope_b_[l].segment(first, count).cast<float>().asDiagonal() * written;
        }
        read += modules_[place(branch.sublayer)]->back(written, now);
        if (branch.shares_input) continue;
        read += initial_.branches[l].input_gradients.middleRows(first, count);
        project(read, passed_[l].a, branch.input_gain * m.gamma);
        read = slope_a_[l].segment(first, count).cast<float>().asDiagonal() * read;
        for (std::size_t j = 0; j < g.size(); ++j) {
          if (branch.reads[j] != 0.0) before[j] += static_cast<float>(branch.reads[j]) * read;
        }
        read = zeros(count, samples_.channels);
      }
      g = std::move(before);
    }
    Sampled all = zeros(count, samples_.channels);
    for (const Sampled& one : g) all += one;
    input_gradient_.middleRows(first, count) = embedding_slope_.segment(first, count).cast<float>().asDiagonal() * all;
  }

  [[nodiscard]] double loss_of(Sampled logits) const {
    logits.colwise() -= logits.rowwise().maxCoeff().eval();
    const Eigen::VectorXf all = logits.array().exp().rowwise().sum().log();
    double sum = 0.0;
    for (Index s = 0; s < logits.rows(); ++s) {
      sum += all(s) - logits(s, tokens_.labels[static_cast<std::size_t>(tokens_.trained() + s)]);
    }
    return sum / static_cast<double>(logits.rows());
  }

  const StackSpec& spec_;
  const TrainingTokens& tokens_;
  const StepSamples& samples_;
  StepFault fault_;
  const std::function<void(double)>& on_work_;
  NormUse norm_;
  StreamEnds ends_;
  InitialStack initial_;
  UpdateLaw law_;
  ModuleContext context_;
  std::vector<std::unique_ptr<TrainedModule>> modules_;  // in the order of steps
  std::vector<int> of_sublayer_;
  RowFields unembedding_;
  ReadHistory unembedding_history_;
  std::optional<FirstMatrix> unembedding_update_;
  Sampled output_channels_;  // of the output before training [all, channels]
  // Of every batch at its step [trained].
  Sampled input_gradient_;
  Vector embedding_slope_, final_slope_;
  std::vector<Vector> slope_a_, slope_b_;
  std::vector<std::vector<Vector>> slope_c_;
  /// y behind the norms, of the next batch [next, channels].
  struct Passed {
    Sampled a, b, c;
  };
  std::vector<Passed> passed_;
  std::vector<std::vector<Passed>> passed_c_;
  Sampled final_follows_, output_now_;
  MovedReading reading_;
};

}  // namespace

std::vector<MovedReading> moved_stack(const StackSpec& spec, const TrainingTokens& tokens,
                                      const OptimizerLaw& optimizer, const StepSamples& samples, StepFault fault,
                                      const std::function<void(double)>& on_work) {
  return MovedStack(spec, tokens, optimizer, samples, fault, on_work).run();
}

}  // namespace periscope::theory
