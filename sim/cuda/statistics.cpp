#include <algorithm>

#include "sim/cuda/columns.h"
#include "sim/cuda/ops.h"
#include "sim/cuda/select.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

/// Writes the token cosine, given the squared length of every row.
template <class T>
void write_cosine(const Execution& execution, const T* x, const double* squares, Index rows, Index cols,
                  Index sequences, double* out) {
  const Index tokens = rows / sequences;
  const std::shared_ptr<double> sums = execution.take_array<double>(sequences * cols);
  for (Index s = 0; s < sequences; ++s) {
    const UnitRowTerm<T> term{x + s * tokens * cols, squares + s * tokens, cols};
    reduce_columns(execution, tokens, cols, term, Add{}, sums.get() + s * cols);
  }
  for_blocks(execution, 1, MeanCosine{sums.get(), sequences, tokens, cols, out});
}

template <class T>
void write_largest(const Execution& execution, const T* x, Index size, const StatisticsLayout& layout, double* out) {
  const Index magnitudes = layout.magnitudes < 0 ? 0 : layout.magnitude_count;
  const Index entries = layout.entries < 0 ? 0 : layout.entry_count;
  const Index k = std::max(magnitudes, entries);
  if (k == 0) return;
  const auto search = find_largest(execution, x, size, k);
  const Index chunks = (size + chunk_elements - 1) / chunk_elements;
  const std::shared_ptr<ChunkCount> counts = execution.take_array<ChunkCount>(chunks);
  const std::shared_ptr<Index> indices = execution.take_array<Index>(k);
  for_blocks(execution, chunks, CountLargest<T>{x, size, search.get(), counts.get()});
  for_each(execution, 1, CountBefore{counts.get(), chunks});
  for_each(execution, chunks, Collect<T>{x, size, k, search.get(), counts.get(), chunks, indices.get()});
  for_each(execution, k,
           WriteLargest<T>{x, indices.get(), k, layout.cols, magnitudes, out + std::max<Index>(0, layout.magnitudes),
                           entries, out + std::max<Index>(0, layout.entries)});
}

}  // namespace

void CudaBackend::run(const op::Measure& o) const {
  double* const out = data<double>(o.numbers);
  const auto address = [out](Index at) { return at < 0 ? nullptr : out + at; };
  std::shared_ptr<double> buffer;
  double* squares = address(o.layout.squares);
  if (o.layout.cosine >= 0 && squares == nullptr) {
    buffer = execution_.take_array<double>(o.x.rows());
    squares = buffer.get();
  }
  with_type(o.x.dtype(), [&]<class T>(T) {
    const T* in = data<T>(o.x);
    const T* other = o.layout.dots < 0 ? nullptr : data<T>(o.request.dots_with);
    if (o.layout.moments >= 0 || squares != nullptr || o.layout.dots >= 0) {
      for_blocks(
          execution_, o.x.rows(),
          MeasureRow<T>{in, other, o.x.rows(), o.x.cols(), address(o.layout.moments), squares, address(o.layout.dots)});
    }
    if (o.layout.cosine >= 0) {
      write_cosine(execution_, in, squares, o.x.rows(), o.x.cols(), o.request.cosine_of_sequences,
                   out + o.layout.cosine);
    }
    if (o.layout.columns >= 0) {
      reduce_columns(execution_, o.x.rows(), o.x.cols(), MagnitudeTerm<T>{in, o.x.cols()}, Max{},
                     out + o.layout.columns);
    }
    write_largest(execution_, in, o.x.size(), o.layout, out);
    if (o.layout.median >= 0) {
      const auto upper = find_largest(execution_, in, o.x.size(), o.x.size() / 2 + 1);
      const auto lower = find_largest(execution_, in, o.x.size(), (o.x.size() - 1) / 2 + 1);
      for_each(execution_, 1, WriteMedian<T>{upper.get(), lower.get(), out + o.layout.median});
    }
  });
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
