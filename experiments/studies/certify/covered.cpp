// What a certificate is about, and what it is not.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/studies/certify/certify.h"

namespace periscope::certify {

// R rescalings, one for every block but the first, count as two tokens each. The lemma supposes (n + R)u' ≤ 1/2, and
// that Σp v, which is not divided yet and may be n·max|v|(1 + (n + 2R)u') ≤ 2n·max|v|, fits the accumulators.
int longest_divided_after(const theory::Certificate& certificate, const ModelSpec& model) {
  const RunArithmetic& run = certificate.arithmetic;
  if (run.kind == Arithmetic::exact) return 0;
  int read = certificate.longest;
  double values = 0.0;
  for (int layer = 0; layer < model.layers; ++layer) {
    if (const int window = model.scores_at(layer).window; window > 0) read = std::min(read, window);
    const theory::SignalBound* v = certificate.find(Signal::v, 2 * layer);
    if (v != nullptr) values = std::max(values, v->largest);
  }
  const double fitting = std::floor(run.accumulated.largest / (2.0 * values));
  const double shorter = std::floor(0.5 / (run.accumulated.unit_roundoff() * (1.0 + 1.0 / smallest_block)));
  const auto rescalings = [](int n) { return std::max(0, n - 1) / smallest_block; };
  const int tokens = static_cast<int>(std::min({static_cast<double>(read), fitting, shorter}));
  int longest = std::max(0, std::min(tokens, read - 2 * rescalings(read)));  // too few still: R is read's
  while (longest < tokens && longest + 1 + 2 * rescalings(longest + 1) <= read) ++longest;
  return longest;
}

std::vector<std::string> not_covered(const CertifyResult& r) {
  std::vector<std::string> all;
  if (r.domain.tokens) {
    all.emplace_back("inputs that bypass the embedding table (inputs_embeds, image embeddings)");
    all.emplace_back("padded sequences (masks added as numbers, positions of padding)");
  }
  if (r.arithmetic == Arithmetic::exact) return all;
  std::vector<std::string> lengths;
  std::set<int> different;
  for (const NumberFormat& f : r.formats) {
    const int longest = longest_divided_after(r.certificates.in(f), r.spec.model);
    lengths.push_back(fmt::format("{} in {}", longest, f.name));
    different.insert(longest);
  }
  if (different.size() == 1) lengths = {fmt::format("{}", *different.begin())};
  all.push_back(
      fmt::format("attention that divides by softmax's denominator after averaging (flash attention) over more tokens "
                  "than {}, or in blocks of fewer than {}",
                  fmt::join(lengths, ", "), smallest_block));
  all.emplace_back("attention over parts of the keys whose results are combined afterwards (split-K)");
  if (subtracts_mean(r.spec.model.norm)) {
    all.emplace_back("LayerNorms whose variance comes of Welford's update or of E[x²] - mean²");
  }
  all.emplace_back("accumulators that truncate, flush-to-zero");
  return all;
}

}  // namespace periscope::certify
