#include "theory/first_steps/trained_stack.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sim/spec/block.h"
#include "theory/first_steps/trained_ends.h"

namespace periscope::theory {
namespace {

class TrainedStack {
 public:
  TrainedStack(const StackSpec& spec, const TrainingTokens& tokens, const OptimizerLaw& optimizer,
               const ReplicateDraws& draws, StepFault fault, const std::function<void(double)>& on_work)
      : spec_(spec),
        tokens_(tokens),
        on_work_(on_work),
        ends_(spec.model.ends()),
        initial_(initial_stack(spec, tokens, draws)),
        clip_(optimizer.clip),
        law_(optimizer, std::vector<double>(static_cast<std::size_t>(tokens.steps), 1.0),
             fault == StepFault::sign_constant ? std::sqrt(std::numbers::pi / 2.0) : 1.0),
        context_{spec_, tokens_, draws, law_, fault},
        embedding_(context_, initial_),
        output_(context_) {
    for (int s = 0; s < spec.model.steps(); ++s) {
      const Step step = spec.model.step(s);
      for (const Branch& branch : step.branches) {
        norm_a_.emplace_back(spec, tokens, branch.norm_a, branch.input_gain);
        norm_b_.emplace_back(spec, tokens, branch.norm_b);
        const auto make = branch.kind == ModuleKind::mlp ? trained_mlp : trained_attention;
        modules_.push_back(make(context_, branch.layer(), initial_of(branch)));
      }
      auto& of_streams = norm_c_.emplace_back();
      for (const bool used : step.norm_c) of_streams.emplace_back(spec, tokens, used);
    }
  }

  std::vector<ReplicateReading> run() {
    std::vector<ReplicateReading> readings;
    for (Index done = 0; done <= tokens_.steps; ++done) {
      const CurrentTokens now{tokens_, done};
      reading_ = {};
      reading_.branch_cosine.assign(static_cast<std::size_t>(spec_.model.sublayers()), 0.0);
      reading_.branch_second_moment = reading_.branch_cosine;
      reading_.input_correlation = reading_.branch_cosine;
      TrainedStreams x = embedding_.forward(now);
      read_stream(x);
      for (int s = 0; s < spec_.model.steps(); ++s) {
        x = step(s, x, now);
        read_stream(x);
        on_work_(1.0);
      }
      reading_.loss = output_.loss(x, now);
      if (now.next() > 0) backward(now);
      readings.push_back(std::move(reading_));
    }
    return readings;
  }

 private:
  [[nodiscard]] const InitialBranch& initial_of(const Branch& branch) const {
    return initial_.branches[static_cast<std::size_t>(branch.sublayer)];
  }

  /// Returns the correlation of a branch's input with its input before training, averaged over the held-out tokens.
  [[nodiscard]] double input_correlation(const TrainedSignal& in, const Branch& branch,
                                         const CurrentTokens& now) const {
    const Sampled x = in.x.total().bottomRows(tokens_.held_out());
    const Sampled before = initial_of(branch).input.bottomRows(tokens_.held_out());
    double sum = 0.0;
    for (Index s = 0; s < tokens_.held_out(); ++s) {
      const double both = std::sqrt(
          std::max(0.0, x.row(s).squaredNorm() + spec_.model.width * in.correction(now.next() + s, now.next() + s)) *
          before.row(s).squaredNorm());
      sum += both > 0.0 ? x.row(s).dot(before.row(s)) / both : 1.0;
    }
    return sum / static_cast<double>(tokens_.held_out());
  }

  TrainedStreams step(int index, const TrainedStreams& x, const CurrentTokens& now) {
    const Step step = spec_.model.step(index);
    std::vector<TrainedSignal> written;
    TrainedSignal read;
    TrainedSignal in;  // shared by branches with shares_input
    for (const Branch& branch : step.branches) {
      const auto l = static_cast<std::size_t>(branch.sublayer);
      if (!branch.shares_input) {
        read = x.sum(branch.reads);
        in = read;
        norm_a_[l].forward(in, now);
      }
      reading_.input_correlation[l] = input_correlation(in, branch, now);
      ModuleOutput module = modules_[l]->forward(in, now);
      norm_b_[l].forward(module.output, now);
      read_branch(l, module.output, read);
      for (const auto& [weight, value] : module.update_square) reading_.update_square[weight].push_back(value);
      written.push_back(std::move(module.output));
    }
    TrainedStreams next = added(step, x, written);
    for (std::size_t i = 0; i < step.norm_c.size(); ++i) {
      if (!step.norm_c[i]) continue;
      TrainedNorm& norm = norm_c_[static_cast<std::size_t>(index)][i];
      const auto [slope, response] = norm.forward(next.x[i], next.correction(i, i).diagonal(), now);
      const Sampled own = next.response(i, i).cwiseProduct(response);
      next.correction.scale(i, slope, slope);
      next.response.scale(i, Eigen::VectorXf(slope.cast<float>()), Eigen::VectorXf(norm.past(now).cast<float>()));
      next.response(i, i) = own;
    }
    return next;
  }

  /// Returns the mean of a·b over channels and held-out tokens, without corrections.
  [[nodiscard]] double product(const SignalParts& a, const SignalParts& b) const {
    const Index held = tokens_.held_out();
    return a.total().bottomRows(held).cwiseProduct(b.total().bottomRows(held)).mean();
  }
  /// Returns the mean of x² over channels and held-out tokens.
  [[nodiscard]] double square(const SignalParts& x, const Matrix& correction) const {
    return product(x, x) + correction.diagonal().tail(tokens_.held_out()).mean();
  }

  /// Stores the second moment of a branch and its cosine with the stream, on the held-out tokens.
  void read_branch(std::size_t sublayer, const TrainedSignal& written, const TrainedSignal& read) {
    const double of_branch = square(written.x, written.correction);
    reading_.branch_second_moment[sublayer] = of_branch;
    reading_.branch_cosine[sublayer] =
        product(written.x, read.x) / std::sqrt(of_branch * square(read.x, read.correction));
  }

  /// Stores the second moment and the coherent part of x_out, averaged over its streams.
  void read_stream(const TrainedStreams& x) {
    const Index held = tokens_.held_out();
    double second = 0.0;
    double coherent = 0.0;
    double parts = 0.0;
    for (std::size_t i = 0; i < x.x.size(); ++i) {
      if (ends_.names[i] != Signal::x_out) continue;
      second += square(x.x[i], x.correction(i, i));
      coherent += static_cast<double>(x.x[i].coherent.bottomRows(held).cwiseAbs2().mean()) +
                  x.correction(i, i).diagonal().tail(held).mean();
      parts += 1.0;
    }
    reading_.second_moment.push_back(second / parts);
    reading_.coherent.push_back(coherent / parts);
  }

  /// Backpropagates the loss of the next batch through the stack.
  void backward(const CurrentTokens& now) {
    double square = 0.0;
    std::vector<Sampled> g = output_.backward(now, square);
    for (int s = spec_.model.steps() - 1; s >= 0; --s) backward_step(s, g, now, square);
    Sampled all = g.front();
    for (std::size_t i = 1; i < g.size(); ++i) all += g[i];
    embedding_.backward(all, now, square);
    reading_.gradient_norm = std::sqrt(square);
    if (clip_ > 0.0 && reading_.gradient_norm > clip_) law_.clip(now.done, clip_ / reading_.gradient_norm);
  }

  /// Replaces g, the gradients at the outputs of a step of the stack, by the gradients at its inputs.
  void backward_step(int index, std::vector<Sampled>& g, const CurrentTokens& now, double& square) {
    const Step step = spec_.model.step(index);
    const Sampled none = Sampled::Zero(now.next(), spec_.model.width);
    for (std::size_t i = 0; i < g.size(); ++i) {
      if (step.norm_c[i]) g[i] = norm_c_[static_cast<std::size_t>(index)][i].backward(std::move(g[i]), now, square);
    }
    std::vector<Sampled> before(g.size(), none);
    for (std::size_t i = 0; i < g.size(); ++i) {
      for (std::size_t k = 0; k < g.size(); ++k) {
        if (step.mixing[k][i] != 0.0) before[i] += static_cast<float>(step.mixing[k][i]) * g[k];
      }
    }
    Sampled read = none;  // gradient at A_out, summed over branches with shares_input
    for (std::size_t n = step.branches.size(); n-- > 0;) {
      const Branch& branch = step.branches[n];
      const auto l = static_cast<std::size_t>(branch.sublayer);
      Sampled written = none;
      for (std::size_t i = 0; i < g.size(); ++i) {
        if (branch.writes[i] != 0.0) written += static_cast<float>(branch.writes[i]) * g[i];
      }
      read += modules_[l]->backward(norm_b_[l].backward(std::move(written), now, square), now, square);
      if (branch.shares_input) continue;
      read = norm_a_[l].backward(std::move(read), now, square);
      for (std::size_t j = 0; j < g.size(); ++j) {
        if (branch.reads[j] != 0.0) before[j] += static_cast<float>(branch.reads[j]) * read;
      }
      read = none;
    }
    g = std::move(before);
  }

  const StackSpec& spec_;
  const TrainingTokens& tokens_;
  const std::function<void(double)>& on_work_;
  StreamEnds ends_;
  InitialStack initial_;
  double clip_;
  UpdateLaw law_;
  ModuleContext context_;
  TrainedEmbedding embedding_;
  TrainedOutput output_;
  std::vector<TrainedNorm> norm_a_, norm_b_;             // by sublayer
  std::vector<std::vector<TrainedNorm>> norm_c_;         // by step and stream
  std::vector<std::unique_ptr<TrainedModule>> modules_;  // by sublayer
  ReplicateReading reading_;
};

}  // namespace

std::vector<ReplicateReading> trained_stack(const StackSpec& spec, const TrainingTokens& tokens,
                                            const OptimizerLaw& optimizer, const ReplicateDraws& draws, StepFault fault,
                                            const std::function<void(double)>& on_work) {
  return TrainedStack(spec, tokens, optimizer, draws, fault, on_work).run();
}

}  // namespace periscope::theory
