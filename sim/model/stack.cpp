#include "sim/model/stack.h"

namespace periscope {

StackOutput stack_forward(const StackContext& c, const Tensor& input, Observer& observer) {
  const ModelSpec& m = c.model;
  Tensor x = m.embedding_norm ? norm_forward(c, 0, NormSite::embedding, input) : input;
  Tensor r = m.placement.two_streams ? x : Tensor{};
  observer.on_input(x);
  for (int l = 0; l < m.sublayers(); ++l) {
    const SublayerRule rule = m.rule(l);
    observer.on_site(l, Site::x_in, x);
    Tensor a = rule.norm_a ? norm_forward(c, l, NormSite::a, x) : x;
    if (rule.input_gain != 1.0) a = c.ops.scale(rule.input_gain, a);
    observer.on_site(l, Site::A_out, a);
    const Tensor f = ModelSpec::is_attention(l) ? attention_forward(c, l / 2, a) : mlp_forward(c, l / 2, a);
    observer.on_site(l, Site::f_out, f);
    const Tensor b = rule.norm_b ? norm_forward(c, l, NormSite::b, f) : f;
    observer.on_site(l, Site::B_out, b);
    x = c.ops.axpby(rule.alpha, x, rule.beta, b);
    if (rule.norm_c) x = norm_forward(c, l, NormSite::c, x);
    observer.on_site(l, Site::x_out, x);
    if (!r.empty()) {
      r = c.ops.axpby(1.0, r, rule.beta, b);
      observer.on_site(l, Site::r_out, r);
    }
  }
  if (!m.final_norm) return {x, r.empty() ? x : c.ops.axpby(1.0, x, 1.0, r)};
  const Tensor normed = norm_forward(c, m.sublayers(), NormSite::final, r.empty() ? x : r);
  return {x, r.empty() ? normed : c.ops.axpby(1.0, x, 1.0, normed)};
}

}  // namespace periscope
