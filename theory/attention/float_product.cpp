#include "theory/attention/float_product.h"

#include "sim/base/processor.h"

namespace periscope::theory {

void multiply(const FloatProduct& product) {
  static const MultiplyFloats best = [] {
    const FloatProductLevel* found = &float_product_levels().front();
    const int processor = processor_level();
    for (const FloatProductLevel& level : float_product_levels()) {
      if (level.processor <= processor) found = &level;
    }
    return found->function();
  }();
  best(product);
}

}  // namespace periscope::theory
