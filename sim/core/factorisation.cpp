#include "sim/core/checks.h"

namespace periscope {

RowBasis Backend::row_basis(const Tensor& x, bool with_basis) const {
  const Checks check(*this, Op::row_basis, {{"x", x}});
  RowBasis b{.lower = do_allocate(x.rows(), x.rows(), x.dtype()), .basis = with_basis ? like(x) : Tensor{}};
  do_row_basis(x, b);
  return b;
}

}  // namespace periscope
