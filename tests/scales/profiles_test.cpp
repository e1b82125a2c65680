#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "sim/backends.h"
#include "sim/model/parameters.h"
#include "tests/scales/scaled_stack.h"
#include "tests/support/doctest.h"
#include "theory/passes/forward.h"

/// Compares theory with simulation for variance profiles (T29): random weights with different row and column sizes.
namespace periscope::testing {
namespace {

/// Lognormal row or column sizes of mean square 1, correlated between all sides of equal length in a sublayer.
std::vector<double> uneven_side(std::uint64_t place, int sublayer, int length, double own, double common) {
  const auto n = static_cast<std::size_t>(length);
  const std::vector<double> shared = normals(5000 + 10000 * static_cast<std::uint64_t>(sublayer + 1) + n, n);
  std::vector<double> sizes = normals(6000 + place, n);
  double square = 0.0;
  for (std::size_t k = 0; k < n; ++k) {
    sizes[k] = std::exp(own * sizes[k] + common * shared[k]);
    square += sizes[k] * sizes[k] / static_cast<double>(n);
  }
  for (double& size : sizes) size /= std::sqrt(square);
  return sizes;
}

/// Uneven scales with profiles of every matrix and table before the head, correlated between rows, columns and gains.
WeightScales profiled_scales(const StackSpec& spec) {
  WeightScales scales = uneven_scales(spec);
  std::uint64_t place = 0;
  for (int l = -1; l < spec.model.sublayers(); ++l) {
    for (const Weight w : weights_in(spec.model, l)) {
      if (is_norm(w)) continue;
      const auto [fan_out, fan_in] = shape_of(spec.model, w);
      const std::uint64_t first = 2 * ++place;
      scales.profiles[matrix_id(l / 2, w)] = {.rows = uneven_side(first, l, fan_out, 0.15, 0.15),
                                              .columns = uneven_side(first + 1, l, fan_in, 0.15, 0.15)};
    }
  }
  return scales;
}

WeightScales without_columns(WeightScales scales) {
  for (auto& [id, profile] : scales.profiles) profile.columns.clear();
  return scales;
}

WeightScales without_profiles(WeightScales scales) {
  scales.profiles.clear();
  return scales;
}

TEST_CASE("profiles in every matrix and table, for every placement rule: theory agrees with simulation") {
  // Norms A, B and C, depth-dependent factors, a scaled stream and two streams.
  for (const char* placement : {"peri", "post", "lns", "deepnorm", "residual-dual"}) {
    const StackSpec spec = scaled_stack(placement);
    const WeightScales scales = profiled_scales(spec);
    const Measured measured = measure(with(spec, scales));
    check_agrees(measured);
    CAPTURE(std::string(placement));
    CHECK(agreement_of(measured, with(spec, without_profiles(scales))).verdict == judge::Verdict::disagrees);
  }
}

/// Adds row sizes of W_q and W_k that make some heads sharp, and column sizes of W_o that weight these heads.
WeightScales with_sharp_heads(const StackSpec& spec, WeightScales scales) {
  const ModelSpec& m = spec.model;
  for (int layer = 0; layer < m.layers; ++layer) {
    for (const Weight w : {Weight::q, Weight::k, Weight::o}) {
      const ParameterId id = matrix_id(layer, w);
      std::vector<double>& side = w == Weight::o ? scales.profiles[id].columns : scales.profiles[id].rows;
      side.assign(static_cast<std::size_t>(w == Weight::k ? m.key_width(0) : m.query_width(0)), 0.0);
      double square = 0.0;
      for (std::size_t i = 0; i < side.size(); ++i) {
        const std::size_t read = i / static_cast<std::size_t>(m.head_dim) / (w == Weight::k ? 1 : 2);  // key head index
        side[i] = read % 2 == 0 ? 1.6 : 0.4;
        square += side[i] * side[i] / static_cast<double>(side.size());
      }
      for (double& size : side) size /= std::sqrt(square);
      scales.stddev[id] *= w == Weight::o ? 1.0 : 1.3;
    }
  }
  return scales;
}

TEST_CASE("rows of different size per head: each head has its own scores, weighted by columns of W_o") {
  for (const QkNorm kind : {QkNorm::none, QkNorm::head, QkNorm::full}) {
    StackSpec spec = scaled_stack("b-only");
    spec.model.qk_norm = kind;
    const WeightScales scales = with_sharp_heads(spec, uneven_scales(spec));
    const Measured measured = measure(with(spec, scales));
    CAPTURE(static_cast<int>(kind));
    check_agrees(measured);
    // A norm per head removes differences between heads.
    if (kind == QkNorm::head) continue;
    WeightScales wrong = scales;
    for (auto& [id, profile] : wrong.profiles)
      if (id.weight != Weight::o) profile.rows.clear();
    CHECK(agreement_of(measured, with(spec, wrong)).verdict == judge::Verdict::disagrees);
    wrong = scales;
    for (int layer = 0; layer < spec.model.layers; ++layer) wrong.profiles.erase(matrix_id(layer, Weight::o));
    CHECK(agreement_of(measured, with(spec, wrong)).verdict == judge::Verdict::disagrees);
  }
}

TEST_CASE("profiles with a plain MLP, biases, LayerNorm and embedding options: theory agrees with simulation") {
  for (const char* placement : {"pre", "post"}) {
    StackSpec spec = scaled_stack(placement);
    spec.model.norm = NormKind::layer;
    spec.model.mlp = MlpKind::gelu;
    spec.model.rope = false;
    spec.model.embedding_norm = true;
    spec.model.embedding = {.width = 256, .positions = 8, .token_types = 2};
    WeightScales scales = profiled_scales(spec);
    for (const auto& [id, stddev] : WeightScales(scales).stddev) {
      if (!is_table(id.weight)) scales.stddev[bias_of(id)] = 0.4;
    }
    for (const auto& [id, gain] : scales.gains) scales.stddev[bias_of(id)] = 0.3;
    // Rejecting a theory that ignores column sizes needs 64 seeds, because it is nearly right here.
    const Measured measured = measure(with(spec, scales), config::WeightsChoice::dense, 64);
    check_agrees(measured);
    CHECK(agreement_of(measured, with(spec, without_columns(scales))).verdict == judge::Verdict::disagrees);
    if (std::string_view(placement) != "pre") continue;
    for (const Weight matrix : {Weight::q, Weight::v, Weight::o, Weight::up, Weight::down}) {
      WeightScales wrong = scales;
      for (int l = 0; l < spec.model.layers; ++l) {
        wrong.stddev[bias_of(matrix_id(l, matrix))] = matrix == Weight::q ? 4.0 : 0.0;
      }
      CAPTURE(std::string(name_of(matrix)));
      CHECK(agreement_of(measured, with(spec, wrong)).verdict == judge::Verdict::disagrees);
    }
  }
}

TEST_CASE("profiles of matrix-free weights: theory agrees with simulation") {
  for (const char* placement : {"pre", "peri"}) {
    StackSpec spec = scaled_stack(placement);
    spec.model.width = 2048;
    spec.model.heads = spec.model.kv_heads = 64;
    spec.model.mlp_width = 4096;
    const WeightScales scales = profiled_scales(spec);
    const Measured measured = measure(with(spec, scales), config::WeightsChoice::matrix_free);
    check_agrees(measured);
    CHECK(agreement_of(measured, with(spec, without_profiles(scales))).verdict == judge::Verdict::disagrees);
  }
}

TEST_CASE("drawn entries equal entries drawn without a profile, times row and column sizes") {
  StackSpec spec = scaled_stack("pre");
  spec.model.layers = 1;
  spec.model.width = 48;
  spec.model.heads = 4;
  spec.model.kv_heads = 2;
  spec.model.head_dim = 12;
  spec.model.mlp_width = 20;
  const WeightScales scales = profiled_scales(spec);
  const auto ops = make_backend("cpu");
  const StackSpec flat = with(spec, without_profiles(scales));
  const StackSpec uneven = with(spec, scales);
  const GeneratedWeights plain(*ops, flat, DType::f64, 3);
  const GeneratedWeights profiled(*ops, uneven, DType::f64, 3);
  std::size_t seen = 0;
  for (const auto& entry : scales.profiles) {
    const ParameterId& id = entry.first;
    const VarianceProfile& profile = entry.second;
    CAPTURE(name_of(id));
    const Tensor z = parameter_of(plain, spec.model, id);
    const std::vector<double> before = ops->to_host(z);
    const std::vector<double> after = ops->to_host(parameter_of(profiled, spec.model, id));
    const auto n = static_cast<std::size_t>(z.cols());
    double worst = 0.0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const double expected = before[i] * profile.rows[i / n] * profile.columns[i % n];
      worst = std::max(worst, std::abs(after[i] - expected) / (std::abs(expected) + 1e-300));
    }
    CHECK(worst < 1e-15);
    ++seen;
    if (!is_table(id.weight)) continue;
    const std::vector<int> ids{5, 2, 5};
    CHECK(ops->to_host(profiled.rows(*ops, id.weight, ids)) ==
          ops->to_host(profiled.WeightSource::rows(*ops, id.weight, ids)));
  }
  CHECK(seen == 8);
}

TEST_CASE("a profile of the wrong length or sign throws") {
  const StackSpec spec = scaled_stack("pre");
  const auto with_rows = [&](std::size_t count, double size) {
    WeightScales scales = uneven_scales(spec);
    scales.profiles[matrix_id(2, Weight::up)] = {.rows = std::vector<double>(count, size), .columns = {}};
    return with(spec, scales);
  };
  const theory::ForwardReplicate replicate{.ids = std::vector<int>(8, 1)};
  CHECK_THROWS_AS((void)theory::forward_profile(with_rows(511, 0.5), replicate), std::logic_error);
  CHECK_THROWS_AS((void)theory::forward_profile(with_rows(512, -0.5), replicate), std::logic_error);
  CHECK_FALSE(has_profiles(with_rows(512, 1.0)));  // constant sizes are not a profile
}

}  // namespace
}  // namespace periscope::testing
