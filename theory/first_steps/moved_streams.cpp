#include "theory/first_steps/moved_streams.h"

namespace periscope::theory {

Matrix MovedStreams::kernel(std::size_t i, std::size_t j) const {
  return own[i][j] + (follows[i] * follows[j].transpose()).cast<double>() / static_cast<double>(follows[i].cols());
}

void MovedStreams::scale(std::size_t stream, const Vector& now, const Vector& before, const Vector& own_times) {
  const Eigen::VectorXf left = now.cast<float>();
  const Eigen::VectorXf right = before.cast<float>();
  const Eigen::VectorXf times = own_times.cast<float>();
  follows[stream] = left.asDiagonal() * follows[stream];
  wanders[stream] = left.asDiagonal() * wanders[stream];
  for (std::size_t j = 0; j < count(); ++j) {
    own[stream][j] = now.asDiagonal() * own[stream][j];
    own[j][stream] = own[j][stream] * now.asDiagonal();
    cross[stream][j] = left.asDiagonal() * cross[stream][j];
    cross[j][stream] = cross[j][stream] * right.asDiagonal();
    response[stream][j] = left.asDiagonal() * response[stream][j];
    response[j][stream] = response[j][stream] * times.asDiagonal();
  }
}

MovedInput nothing_like(const MovedStreams& x) {
  const Matrix& own = x.own.front().front();
  const Sampled& cross = x.cross.front().front();
  const Sampled& follows = x.follows.front();
  const Sampled& response = x.response.front().front();
  return {.own = Matrix::Zero(own.rows(), own.cols()),
          .cross = Sampled::Zero(cross.rows(), cross.cols()),
          .follows = Sampled::Zero(follows.rows(), follows.cols()),
          .wanders = Sampled::Zero(follows.rows(), follows.cols()),
          .response = Sampled::Zero(response.rows(), response.cols())};
}

MovedInput read_of(const MovedStreams& x, const std::vector<double>& reads) {
  MovedInput in = nothing_like(x);
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
  in.own += (in.follows * in.follows.transpose()).cast<double>() / static_cast<double>(in.follows.cols());
  return in;
}

MovedStreams added(const Step& step, const MovedStreams& x, const std::vector<Written>& written) {
  MovedStreams next(x.count());
  const auto into = [](auto& sum, double weight, const auto& part) {
    using Real = typename std::decay_t<decltype(part)>::Scalar;
    if (weight == 0.0) return;
    if (sum.size() == 0) {
      sum = static_cast<Real>(weight) * part;
    } else {
      sum += static_cast<Real>(weight) * part;
    }
  };
  for (std::size_t i = 0; i < x.count(); ++i) {
    next.follows[i] = Sampled::Zero(x.follows[i].rows(), x.follows[i].cols());
    next.wanders[i] = next.follows[i];
    for (std::size_t k = 0; k < x.count(); ++k) {
      into(next.follows[i], step.mixing[i][k], x.follows[k]);
      into(next.wanders[i], step.mixing[i][k], x.wanders[k]);
    }
    for (std::size_t n = 0; n < written.size(); ++n) {
      into(next.follows[i], step.branches[n].writes[i], written[n].follows);
      into(next.wanders[i], step.branches[n].writes[i], written[n].wanders);
    }
    for (std::size_t j = 0; j < x.count(); ++j) {
      Matrix& own = next.own[i][j] = Matrix::Zero(x.own[i][j].rows(), x.own[i][j].cols());
      Sampled& cross = next.cross[i][j] = Sampled::Zero(x.cross[i][j].rows(), x.cross[i][j].cols());
      Sampled& response = next.response[i][j] = Sampled::Zero(x.response[i][j].rows(), x.response[i][j].cols());
      for (std::size_t k = 0; k < x.count(); ++k) {
        for (std::size_t l = 0; l < x.count(); ++l) {
          const double both = step.mixing[i][k] * step.mixing[j][l];
          into(own, both, x.own[k][l]);
          into(cross, both, x.cross[k][l]);
          into(response, both, x.response[k][l]);
        }
      }
      for (std::size_t n = 0; n < written.size(); ++n) {
        const double both = step.branches[n].writes[i] * step.branches[n].writes[j];
        into(own, both, written[n].own);
        into(cross, both, written[n].cross);
        into(response, both, written[n].response);
      }
    }
  }
  return next;
}

}  // namespace periscope::theory
