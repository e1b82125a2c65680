#include "theory/first_steps/moved_stack.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sim/spec/block.h"
#include "theory/first_steps/moved_embedding.h"
#include "theory/first_steps/moved_output.h"
#include "theory/predict/fault.h"

namespace periscope::theory {
namespace {

/// What clipping multiplies the gradients of every batch by, whose norms are given.
std::vector<double> clips(const OptimizerLaw& optimizer, const std::vector<double>& gradient_norm) {
  std::vector<double> result;
  for (const double norm : gradient_norm) {
    result.push_back(optimizer.clip > 0.0 && norm > optimizer.clip ? optimizer.clip / norm : 1.0);
  }
  return result;
}

class MovedStack {
 public:
  MovedStack(const StackSpec& spec, const TrainingTokens& tokens, const OptimizerLaw& optimizer,
             const StepSamples& samples, StepFault fault, const std::function<void(double)>& on_work)
      : spec_(spec),
        tokens_(tokens),
        samples_(samples),
        on_work_(on_work),
        norm_(norm_use(spec.model)),
        ends_(spec.model.ends()),
        initial_(initial_stack(spec, tokens, samples)),
        law_(optimizer, clips(optimizer, initial_.gradient_norm),
             fault == StepFault::sign_constant ? std::sqrt(std::numbers::pi / 2.0) : 1.0),
        context_{spec_, tokens_, samples_, law_, fault},
        embedding_(context_, initial_),
        output_(context_, initial_),
        norm_a_(static_cast<std::size_t>(spec.model.sublayers()), MovedNorm(tokens)),
        norm_b_(norm_a_),
        norm_c_(static_cast<std::size_t>(spec.model.steps()),
                std::vector<MovedNorm>(static_cast<std::size_t>(ends_.streams()), MovedNorm(tokens))),
        modules_(static_cast<std::size_t>(spec.model.sublayers())) {
    for (int s = 0; s < spec.model.steps(); ++s) {
      for (const Branch& branch : step_under(Fault::none, spec.model, s).branches) {
        const auto l = static_cast<std::size_t>(branch.sublayer);
        const auto make = branch.kind == ModuleKind::mlp ? trained_mlp : trained_attention;
        modules_[l] = make(context_, branch.layer(), initial_.branches[l]);
      }
    }
  }

  std::vector<MovedReading> run() {
    std::vector<MovedReading> readings;
    for (Eigen::Index done = 0; done <= tokens_.steps; ++done) {
      const TokensNow now{tokens_, done};
      reading_ = {};
      reading_.branch_cosine.assign(static_cast<std::size_t>(spec_.model.sublayers()), 0.0);
      reading_.branch_second_moment = reading_.branch_cosine;
      reading_.kept = reading_.branch_cosine;
      MovedStreams x = embedding_.now(now);
      read_stream(x);
      for (int s = 0; s < spec_.model.steps(); ++s) {
        x = step(s, x, now);
        read_stream(x);
        on_work_(1.0);
      }
      reading_.loss = output_.loss(x, now);
      if (now.next() > 0) back(now);
      readings.push_back(std::move(reading_));
    }
    return readings;
  }

 private:
  /// What a branch reads behind its norm A, or its factor alone, from what it reads in front of them.
  void through_norm_a(MovedInput& in, const Branch& branch, const TokensNow& now) {
    const auto l = static_cast<std::size_t>(branch.sublayer);
    const Vector ones = Vector::Ones(now.count());
    const Vector slope =
        branch.input_gain * (branch.norm_a ? slope_of(in.own.diagonal(), norm_, spec_.model.gamma) : ones);
    const Eigen::VectorXf left = slope.cast<float>();
    const Eigen::VectorXf right = initial_.branches[l].slope_a.cast<float>();
    in.own = slope.asDiagonal() * in.own * slope.asDiagonal();
    in.follows = left.asDiagonal() * in.follows;
    in.wanders = left.asDiagonal() * in.wanders;
    in.cross = left.asDiagonal() * in.cross * right.asDiagonal();
    in.response = left.asDiagonal() * in.response * norm_a_[l].times(now).cast<float>().asDiagonal();
    if (branch.norm_a) {
      norm_a_[l].append(slope, in.follows, now);
    } else {
      norm_a_[l].append(slope, now);
    }
  }

  /// Mean over the held-out tokens of the correlation of a token's channels with what they were.
  [[nodiscard]] double kept_share(const MovedInput& in, const InitialBranch& initial, const TokensNow& now) const {
    double sum = 0.0;
    for (Eigen::Index s = now.next(); s < now.count(); ++s) {
      const double before = initial.input(now.token(s), now.token(s));
      const double both = std::sqrt(in.own(s, s) * before);
      sum += both > 0.0 ? in.cross(s, now.token(s)) / both : 1.0;
    }
    return sum / static_cast<double>(tokens_.held_out());
  }

  /// B_out of a branch, whose module has written f with the gradients of f so far.
  [[nodiscard]] Written written_of(const MovedModule& module, const Branch& branch, const Sampled& gradients,
                                   const TokensNow& now) {
    const auto l = static_cast<std::size_t>(branch.sublayer);
    const InitialBranch& initial = initial_.branches[l];
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
      const Eigen::VectorXf left = slope.cast<float>();
      keep = keep.cwiseProduct(slope);
      w.follows = left.asDiagonal() * w.follows;
      w.wanders = left.asDiagonal() * w.wanders;
      w.own = slope.asDiagonal() * w.own * slope.asDiagonal();
      w.response = left.asDiagonal() * w.response * norm_b_[l].times(now).cast<float>().asDiagonal();
      norm_b_[l].append(slope, w.follows, now);
    }
    w.own += keep.asDiagonal() * before * keep.asDiagonal();
    w.cross = keep.cast<float>().asDiagonal() * now.rows_of(initial.output);
    return w;
  }

  MovedStreams step(int index, const MovedStreams& x, const TokensNow& now) {
    const Step step = step_under(Fault::none, spec_.model, index);
    const auto at = static_cast<std::size_t>(index);
    std::vector<Written> written;
    MovedInput read;
    MovedInput in;  // of the branches that share it
    for (const Branch& branch : step.branches) {
      const auto l = static_cast<std::size_t>(branch.sublayer);
      if (!branch.shares_input) {
        read = read_of(x, branch.reads);
        in = read;
        through_norm_a(in, branch, now);
      }
      reading_.kept[l] = kept_share(in, initial_.branches[l], now);
      const MovedModule module = modules_[l]->now(in, now);
      written.push_back(written_of(module, branch, modules_[l]->gradients(now), now));
      read_branch(l, written.back(), read);
      for (const auto& [weight, value] : module.update_square) reading_.update_square[weight].push_back(value);
    }
    MovedStreams next = added(step, x, written);
    for (std::size_t i = 0; i < x.count(); ++i) {
      if (!step.norm_c[i]) continue;
      MovedNorm& norm = norm_c_[at][i];
      const Vector slope = slope_of(next.kernel(i, i).diagonal(), norm_, spec_.model.gamma);
      next.scale(i, slope, initial_.slope_c[at][i], norm.times(now));
      norm.append(slope, next.follows[i], now);
    }
    return next;
  }

  /// Reads a branch on the held-out tokens: what it has written, and its cosine with what it read.
  void read_branch(std::size_t sublayer, const Written& written, const MovedInput& read) {
    const Eigen::Index held = tokens_.held_out();
    const auto follows = written.follows.bottomRows(held);
    const auto size = static_cast<double>(follows.size());
    const double square = written.own.diagonal().tail(held).mean() + follows.squaredNorm() / size;
    const double product = follows.cwiseProduct(read.follows.bottomRows(held)).sum() / size;
    reading_.branch_second_moment[sublayer] = square;
    reading_.branch_cosine[sublayer] = product / std::sqrt(square * read.own.diagonal().tail(held).mean());
  }

  /// Reads the streams that end as x_out, whose mean is the reading.
  void read_stream(const MovedStreams& x) {
    const Eigen::Index held = tokens_.held_out();
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

  /// The gradients of the next batch's loss.
  void back(const TokensNow& now) {
    std::vector<Sampled> g = output_.back(now);
    for (int s = spec_.model.steps() - 1; s >= 0; --s) step_back(s, g, now);
    Sampled all = g.front();
    for (std::size_t i = 1; i < g.size(); ++i) all += g[i];
    embedding_.back(all, now);
  }

  /// From the gradients of the streams behind a step those in front of it.
  void step_back(int index, std::vector<Sampled>& g, const TokensNow& now) {
    const double gamma = spec_.model.gamma;
    const Step step = step_under(Fault::none, spec_.model, index);
    const Sampled none = Sampled::Zero(now.next(), samples_.channels);
    for (std::size_t i = 0; i < g.size(); ++i) {
      if (step.norm_c[i]) g[i] = norm_c_[static_cast<std::size_t>(index)][i].back(std::move(g[i]), gamma, now);
    }
    std::vector<Sampled> before(g.size(), none);
    for (std::size_t i = 0; i < g.size(); ++i) {
      for (std::size_t k = 0; k < g.size(); ++k) {
        if (step.mixing[k][i] != 0.0) before[i] += static_cast<float>(step.mixing[k][i]) * g[k];
      }
    }
    Sampled read = none;  // of A_out, of the branches that share it
    for (std::size_t n = step.branches.size(); n-- > 0;) {
      const Branch& branch = step.branches[n];
      const auto l = static_cast<std::size_t>(branch.sublayer);
      Sampled written = none;
      for (std::size_t i = 0; i < g.size(); ++i) {
        if (branch.writes[i] != 0.0) written += static_cast<float>(branch.writes[i]) * g[i];
      }
      if (branch.norm_b) written = norm_b_[l].back(std::move(written), gamma, now);
      read += modules_[l]->back(written, now);
      if (branch.shares_input) continue;
      read += initial_.branches[l].input_gradients.middleRows(now.trained(), now.next());
      read = norm_a_[l].back(std::move(read), branch.input_gain * gamma, now);
      for (std::size_t j = 0; j < g.size(); ++j) {
        if (branch.reads[j] != 0.0) before[j] += static_cast<float>(branch.reads[j]) * read;
      }
      read = none;
    }
    g = std::move(before);
  }

  const StackSpec& spec_;
  const TrainingTokens& tokens_;
  const StepSamples& samples_;
  const std::function<void(double)>& on_work_;
  NormUse norm_;
  StreamEnds ends_;
  InitialStack initial_;
  UpdateLaw law_;
  ModuleContext context_;
  MovedEmbedding embedding_;
  MovedOutput output_;
  std::vector<MovedNorm> norm_a_, norm_b_;               // by sublayer
  std::vector<std::vector<MovedNorm>> norm_c_;           // by step and stream
  std::vector<std::unique_ptr<TrainedModule>> modules_;  // by sublayer
  MovedReading reading_;
};

}  // namespace

std::vector<MovedReading> moved_stack(const StackSpec& spec, const TrainingTokens& tokens,
                                      const OptimizerLaw& optimizer, const StepSamples& samples, StepFault fault,
                                      const std::function<void(double)>& on_work) {
  return MovedStack(spec, tokens, optimizer, samples, fault, on_work).run();
}

}  // namespace periscope::theory
