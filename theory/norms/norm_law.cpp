#include "theory/norms/norm_law.h"

#include <array>
#include <stdexcept>

namespace periscope::theory {
namespace {

struct Row {
  NormKind kind;
  const NormLaw* law;
};
constexpr std::array law_of_kind{Row{NormKind::rms, &dividing_law}, Row{NormKind::layer, &dividing_law},
                                 Row{NormKind::dyt, &dyt_law},      Row{NormKind::derf, &derf_law},
                                 Row{NormKind::l2, &dividing_law},  Row{NormKind::none, &scale_law}};
static_assert(are_rows_of(law_of_kind, &Row::kind), "one row per kind, in the order of NormKind");

}  // namespace

NormUse norm_use(const ModelSpec& m) {
  return {m.norm, m.norm_eps, m.width, facts_of(m.norm).has_alpha() ? m.norm_alpha : 1.0};
}

const NormLaw& law_of(NormKind kind) { return *law_of_kind[static_cast<std::size_t>(kind)].law; }

void normalise(Eigen::Ref<Matrix> x, const NormUse& norm, double gamma) {
  const auto map = law_of(norm.kind).coordinates;
  if (map == nullptr) throw std::logic_error("unsupported: coordinates of a pointwise norm");
  map(x, norm, gamma);
}

}  // namespace periscope::theory
