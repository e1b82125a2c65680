#include <algorithm>
#include <optional>

#include "sim/cuda/moments.h"
#include "sim/cuda/ops.h"
#include "sim/cuda/select.h"
#include "sim/cuda/tile.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

/// A search with its memory, which kernels may use until it is released in the order of the calls.
template <class T>
struct SearchMemory {
  /// Finds `digits` digits of the element of rank `rank` among all elements, or among `candidates`.
  SearchMemory(const Execution& execution, const Tensor& x, Index rank, int digits, bool among_candidates)
      : counts(execution.take_array<unsigned>(digits * bins + 2 + bins)),
        candidates(among_candidates ? execution.take_array<unsigned>(x.size()) : nullptr),
        found(execution.take_array<Found<T>>(digits + 1)),
        search{data<T>(x),
               static_cast<unsigned>(x.size()),
               static_cast<unsigned>(rank),
               digits,
               counts.get(),
               candidates.get(),
               found.get()} {
    execution.fill_zero(counts.get(), static_cast<std::size_t>(digits * bins + 2 + bins) * sizeof(unsigned));
  }
  [[nodiscard]] unsigned* candidate_count() const { return counts.get() + search.digits * bins; }
  [[nodiscard]] unsigned* chosen_count() const { return candidate_count() + 1; }
  [[nodiscard]] unsigned* row_maxima() const { return candidate_count() + 2; }

  std::shared_ptr<unsigned> counts;
  std::shared_ptr<unsigned> candidates;
  std::shared_ptr<Found<T>> found;
  Search<T> search;
};

template <class T>
void write_largest(const Execution& execution, const SearchMemory<T>& memory, const StatisticsLayout& layout,
                   double* out) {
  const Search<T>& search = memory.search;
  find_digits(execution, search);
  const std::shared_ptr<Order<T>> chosen = execution.take_array<Order<T>>(search.rank);
  const Index blocks = blocks_of(search);
  for_blocks(execution, blocks, Choose<T>{search, blocks, chosen.get(), memory.chosen_count()});
  for_each(
      execution, search.rank,
      WriteLargest<T>{search.x, chosen.get(), memory.chosen_count(), memory.found.get() + search.digits, layout.cols,
                      layout.magnitudes < 0 ? 0 : layout.magnitude_count, out + std::max<Index>(0, layout.magnitudes),
                      layout.entries < 0 ? 0 : layout.entry_count, out + std::max<Index>(0, layout.entries)});
}

template <class T>
void write_median(const Execution& execution, const Tensor& x, double* out) {
  constexpr int digits = digits_in(key_bits<T>);
  const SearchMemory<T> upper(execution, x, (x.size() + 1) / 2, digits, false);
  const SearchMemory<T> lower(execution, x, x.size() / 2 + 1, digits, false);
  for (const SearchMemory<T>* memory : {&upper, &lower}) find_digits(execution, memory->search);
  for_blocks(execution, 1, WriteMedian<T>{upper.search, lower.search, out});
}

/// Measures a signal in two passes: by rows, then by tiles. The median takes further ones.
template <class T>
void measure_signal(const Execution& execution, const op::Measure& o) {
  const StatisticsLayout& layout = o.layout;
  const Index rows = o.x.rows();
  const Index cols = o.x.cols();
  double* const out = data<double>(o.numbers);
  const auto at = [out](Index place) { return place < 0 ? nullptr : out + place; };
  const bool cosine = layout.cosine >= 0;
  const Index largest =
      std::max(layout.magnitudes < 0 ? 0 : layout.magnitude_count, layout.entries < 0 ? 0 : layout.entry_count);
  std::optional<SearchMemory<T>> memory;
  if (largest > 0) {
    memory.emplace(execution, o.x, largest, digits_in(key_bits<T> + (layout.entries < 0 ? 0 : index_bits)), true);
  }
  const std::shared_ptr<double> inverse_lengths = cosine ? execution.take_array<double>(rows) : nullptr;
  if (layout.moments >= 0 || layout.squares >= 0 || layout.dots >= 0 || cosine || memory) {
    for_blocks(execution, rows,
               MeasureRow<T>{data<T>(o.x), layout.dots < 0 ? nullptr : data<T>(o.request.dots_with), rows, cols,
                             at(layout.moments), at(layout.squares), at(layout.dots), inverse_lengths.get(),
                             memory ? memory->row_maxima() : nullptr});
  }
  if (cosine || layout.columns >= 0 || memory) {
    const Index sequences = cosine ? o.request.cosine_of_sequences : 1;
    const Index tokens = rows / sequences;
    const Index pieces = (tokens + piece_rows - 1) / piece_rows;
    const auto partial = [&](bool wanted) {
      return wanted ? execution.take_array<double>(sequences * pieces * cols) : nullptr;
    };
    const std::shared_ptr<double> unit_sums = partial(cosine);
    const std::shared_ptr<double> maxima = partial(layout.columns >= 0);
    using Tile = MeasureTile<T>;
    for_blocks(execution, sequences * pieces * ((cols + Tile::cols - 1) / Tile::cols),
               Tile{data<T>(o.x), cols, tokens, pieces, inverse_lengths.get(), unit_sums.get(), maxima.get(),
                    memory ? memory->row_maxima() : nullptr, static_cast<unsigned>(largest),
                    memory ? memory->candidate_count() : nullptr, memory ? memory->candidates.get() : nullptr});
    if (cosine) {
      const std::shared_ptr<double> sums = execution.take_array<double>(sequences * cols);
      combine_pieces(execution, unit_sums.get(), Add{}, sequences, pieces, cols, sums.get());
      for_blocks(execution, 1, MeanCosine{sums.get(), sequences, tokens, cols, at(layout.cosine)});
    }
    if (maxima) combine_pieces(execution, maxima.get(), Max{}, 1, sequences * pieces, cols, at(layout.columns));
  }
  if (memory) write_largest(execution, *memory, layout, out);
  if (layout.median >= 0) write_median<T>(execution, o.x, at(layout.median));
}

}  // namespace

void CudaBackend::run(const op::Measure& o) const {
  with_type(o.x.dtype(), [&]<class T>(T) { measure_signal<T>(execution_, o); });
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
