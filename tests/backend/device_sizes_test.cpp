#include <string>
#include <vector>

#include "sim/cuda/on_host/backend.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/tolerances.h"
#include "tests/support/twin.h"

/// All dtypes at sizes near a warp, near a block of 256 threads, and larger than a device chunk.
namespace periscope::testing {
namespace {

using Index = Tensor::Index;
constexpr Index columns[] = {1, 31, 32, 33, 255, 256, 257, 4099};

/// Error bound of an op whose longest sum has n terms, relative to the largest entry of its result. `condition` is the
/// sum of the terms' magnitudes divided by that entry; intermediate results are rounded to dtype up to three times.
double allowed(double n, double condition, DType dtype) {
  const DType computed = compute_dtype(dtype);
  return condition * (rounding_bound_of_both(n + 24, computed) + (computed == dtype ? 0.0 : rounding_bound(3, dtype)));
}

/// Compares `run(backend, x, y, row)` on every target with the reference.
template <class Run>
void compare_at(const std::string& what, double condition, const Run& run) {
  for (const Target& target : targets_of_every_dtype()) {
    for (const Index cols : columns) {
      for (const Index rows : {Index{1}, Index{cols > 1000 ? 5 : 65}}) {
        INFO("rows := ", rows, ", cols := ", cols);
        const Twin x = normal_twin(target, rows, cols, 60);
        const Twin y = normal_twin(target, rows, cols, 61);
        const Twin row = normal_twin(target, 1, cols, 62);
        const auto here = run(*target.backend, x.here, y.here, row.here);
        const auto there = run(truth(), x.truth, y.truth, row.truth);
        const double error = allowed(static_cast<double>(rows + cols), condition, target.dtype);
        for (std::size_t i = 0; i < here.size(); ++i) {
          check_close_to_scale(target.name() + " " + what + ", result " + std::to_string(i),
                               target.backend->to_host(here[i]), truth().to_host(there[i]), error);
        }
      }
    }
  }
}

using Results = std::vector<Tensor>;

TEST_CASE("device sizes: products match the reference" * doctest::test_suite("slow")) {
  compare_at("products", 32.0, [](const Backend& ops, const Tensor& x, const Tensor& y, const Tensor& row) -> Results {
    return {ops.linear(x, y), ops.linear_backward_weight(x, y), ops.linear_backward_input(ops.linear(x, row), row)};
  });
}

TEST_CASE("device sizes: elementwise ops and column sums match the reference" * doctest::test_suite("slow")) {
  compare_at("elementwise", 32.0,
             [](const Backend& ops, const Tensor& x, const Tensor& y, const Tensor& row) -> Results {
               const GatedGradient g = ops.gated_backward(Activation::gelu, x, y, y);
               return {ops.axpby(0.5, x, 2.0, y),
                       ops.add_row(x, row),
                       ops.gated(Activation::silu, x, y),
                       g.dgate,
                       g.dup,
                       ops.soft_cap(1.5, x),
                       ops.column_sums(ops.multiply(x, x)),
                       ops.gather(x, std::vector<int>{0}),
                       ops.scatter_add(x, std::vector<int>(static_cast<std::size_t>(x.rows()), 1), 3)};
             });
}

/// Compares attention and its gradients with the reference.
void check_attention_sizes(const Target& target, const AttentionShape& shape, Index tokens) {
  INFO("tokens := ", tokens, ", shape.causal := ", shape.causal, ", shape.scores.soft_cap := ", shape.scores.soft_cap,
       ", shape.scores.window := ", shape.scores.window);
  const Index rows = shape.sequences * tokens;
  const Twin q = normal_twin(target, rows, shape.heads * shape.head_dim, 63);
  const Twin k = normal_twin(target, rows, shape.kv_heads * shape.head_dim, 64);
  const Twin v = normal_twin(target, rows, shape.kv_heads * shape.head_dim, 65);
  const double error = allowed(static_cast<double>(4 * tokens + shape.head_dim * 24), 16.0, target.dtype);
  const auto check = [&](const char* what, const Tensor& here, const Tensor& there) {
    check_close_to_scale(target.name() + " " + what, target.backend->to_host(here), truth().to_host(there), error);
  };
  const AttentionOutput here = target.backend->attention(q.here, k.here, v.here, shape);
  const AttentionOutput there = truth().attention(q.truth, k.truth, v.truth, shape);
  check("mixed", here.mixed, there.mixed);
  check("scores", here.scores, there.scores);
  const AttentionGradient g = target.backend->attention_backward(q.here, k.here, v.here, q.here, shape);
  const AttentionGradient e = truth().attention_backward(q.truth, k.truth, v.truth, q.truth, shape);
  check("dq", g.dq, e.dq);
  check("dk", g.dk, e.dk);
  check("dv", g.dv, e.dv);
}

TEST_CASE("device sizes: attention and its gradients match the reference" * doctest::test_suite("slow")) {
  std::vector<Target> all = targets_of_every_dtype();
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    all.push_back({make_cuda_backend_on_host(), dtype});  // all scores in a single tile, as on a GPU
  }
  const AttentionShape shapes[] = {{1, 1, 33, 1, true, {.scale = 0.3}},
                                   {3, 3, 2, 3, false},
                                   {4, 2, 9, 2, true},
                                   {4, 2, 9, 2, true, {.window = 40}},
                                   {4, 4, 1, 1, false},
                                   {4, 1, 31, 3, false, {.soft_cap = 0.8}},
                                   {4, 1, 33, 3, true, {.soft_cap = 1.5, .window = 1}},
                                   {4, 2, 5, 3, true, {.scale = 0.6, .soft_cap = 1.5, .window = 2}}};
  for (const Target& target : all) {
    for (const AttentionShape& shape : shapes) {
      for (const Index tokens : {Index{1}, Index{2}, Index{31}, Index{32}, Index{33}, Index{257}}) {
        check_attention_sizes(target, shape, tokens);
      }
    }
    // Several query blocks, with windows that start inside a block.
    for (const int window : {0, 40, 200}) {
      check_attention_sizes(target, {2, 1, 3, 1, true, {.window = window}}, 330);
      check_attention_sizes(target, {2, 1, 3, 1, false, {.soft_cap = 1.5, .window = window}}, 330);
    }
  }
}

TEST_CASE("device sizes: norms and the loss match the reference" * doctest::test_suite("slow")) {
  compare_at("norms", 64.0, [](const Backend& ops, const Tensor& x, const Tensor& y, const Tensor& row) -> Results {
    const NormGradient g = ops.norm_backward(NormKind::layer, x, row, y, 0.1);
    const std::vector<int> labels(static_cast<std::size_t>(x.rows()), static_cast<int>(x.cols() / 2));
    return {
        ops.norm(NormKind::layer, x, row, row, 0.1), ops.norm(NormKind::rms, x, row, {}, 0.1), g.dx, g.dgain, g.dbias,
        ops.cross_entropy(x, labels).dlogits};
  });
}

}  // namespace
}  // namespace periscope::testing
