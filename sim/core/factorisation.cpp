#include "sim/core/checks.h"

namespace periscope {

RowBasis Backend::row_basis(const Tensor& x, bool with_basis) const {
  const Checks check(*this, op::RowBasis::facts, {{"x", x}});
  return run_into<op::RowBasis>(
      RowBasis{.lower = do_allocate(x.rows(), x.rows(), x.dtype()), .basis = with_basis ? like(x) : Tensor{}}, x);
}

}  // namespace periscope
