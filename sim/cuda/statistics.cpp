#include <algorithm>
#include <optional>

#include "sim/base/error.h"
#include "sim/cuda/moments.h"
#include "sim/cuda/ops.h"
#include "sim/cuda/select.h"
#include "sim/cuda/tile.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

/// The buffers of a search. They are freed in stream order, so kernels launched earlier may still use them.
template <class T>
struct SearchMemory {
  SearchMemory(const Execution& execution, const Tensor& x, int digits_to_find, bool with_candidates)
      : digits(digits_to_find), counts(execution.take_array<unsigned>(size())) {
    if (x.size() >> index_bits != 0) {
      throw Error(ExitCode::runtime_failure,
                  "device = \"cuda\": the largest entries and the median of signals of 2^32 elements or more are not "
                  "supported; use fewer tokens");
    }
    execution.fill_zero(counts.get(), static_cast<std::size_t>(size()) * sizeof(unsigned));
    if (with_candidates) candidates = execution.take_array<unsigned>(x.size());
  }
  [[nodiscard]] Index size() const { return Index{digits} * bins + bins + 2; }
  [[nodiscard]] unsigned* row_maxima() const { return counts.get() + Index{digits} * bins; }
  [[nodiscard]] unsigned* candidate_number() const { return row_maxima() + bins; }
  [[nodiscard]] unsigned* chosen_number() const { return candidate_number() + 1; }
  [[nodiscard]] Search<T> search(const Tensor& x, Index rank) const {
    const auto elements = static_cast<unsigned>(x.size());
    const auto wanted = static_cast<unsigned>(rank);
    return {data<T>(x), elements, wanted, digits, counts.get(), candidates.get(), candidate_number()};
  }

  int digits;
  std::shared_ptr<unsigned> counts;      ///< zeros: [digits, bins], row maxima [bins], candidates, chosen
  std::shared_ptr<unsigned> candidates;  ///< indices, or null
};

template <class T>
void write_largest(const Execution& execution, const SearchMemory<T>& memory, const Search<T>& search,
                   const StatisticsLayout& layout, double* magnitudes, double* entries) {
  find_digits(execution, search);
  const std::shared_ptr<SortKey<T>> chosen = execution.take_array<SortKey<T>>(search.rank + 1);
  for_blocks(execution, search.blocks(), Choose<T>{search, chosen.get(), memory.chosen_number()});
  for_each(execution, search.rank,
           WriteLargest<T>{search.x, chosen.get(), memory.chosen_number(), search.rank, layout.cols,
                           layout.magnitude_count, magnitudes, layout.entry_count, entries});
}

template <class T>
void write_median(const Execution& execution, const Tensor& x, double* out) {
  const SearchMemory<T> of_upper(execution, x, digits_in(bits_of_magnitude<T>), false);
  const SearchMemory<T> of_lower(execution, x, of_upper.digits, false);
  const Search<T> upper = of_upper.search(x, (x.size() + 1) / 2);
  const Search<T> lower = x.size() % 2 == 0 ? of_lower.search(x, x.size() / 2 + 1) : upper;
  find_digits(execution, upper);
  if (x.size() % 2 == 0) find_digits(execution, lower);
  for_blocks(execution, 1, WriteMedian<T>{upper, lower, out});
}

/// Reads the signal twice: by rows, then by tiles. After that, the candidates of the largest elements are read once per
/// digit and once more; for the median, all elements once per digit for each of the two middle ranks.
template <class T>
void measure_signal(const Execution& execution, const op::Measure& o) {
  const StatisticsLayout& layout = o.layout;
  const Index rows = o.x.rows();
  const Index cols = o.x.cols();
  const auto at = [&](Index place) { return place < 0 ? nullptr : data<double>(o.numbers) + place; };
  const bool cosine = layout.cosine >= 0;
  const Index largest = std::max(layout.magnitude_count, layout.entry_count);
  std::optional<SearchMemory<T>> search;
  if (largest > 0) {
    search.emplace(execution, o.x, digits_in(bits_of_magnitude<T> + (layout.entry_count > 0 ? index_bits : 0)), true);
  }
  const std::shared_ptr<double> inverse_lengths = cosine ? execution.take_array<double>(rows) : nullptr;
  if (layout.moments >= 0 || layout.squares >= 0 || layout.dots >= 0 || cosine || search) {
    measure_rows(execution, MeasureRows<T>{.x = data<T>(o.x),
                                           .other = layout.dots < 0 ? nullptr : data<T>(o.request.dots_with),
                                           .rows = rows,
                                           .n = cols,
                                           .moments = at(layout.moments),
                                           .squares = at(layout.squares),
                                           .dots = at(layout.dots),
                                           .inverse_lengths = inverse_lengths.get(),
                                           .row_maxima = search ? search->row_maxima() : nullptr});
  }
  if (cosine || layout.columns >= 0 || search) {
    const Index sequences = cosine ? o.request.cosine_of_sequences : 1;
    const Index tokens = rows / sequences;
    const Index pieces = ceil_div(tokens, piece_rows);
    const auto partial = [&](bool wanted) {
      return wanted ? execution.take_array<double>(sequences * pieces * cols) : nullptr;
    };
    const std::shared_ptr<double> unit_sums = partial(cosine);
    const std::shared_ptr<double> maxima = partial(layout.columns >= 0);
    for_blocks(
        execution, sequences * pieces * ceil_div(cols, MeasureTile<T>::cols),
        MeasureTile<T>{data<T>(o.x), cols, tokens, pieces, inverse_lengths.get(), unit_sums.get(), maxima.get(),
                       search ? search->row_maxima() : nullptr, static_cast<unsigned>(largest),
                       search ? search->candidates.get() : nullptr, search ? search->candidate_number() : nullptr});
    if (cosine) {
      const std::shared_ptr<double> sums = execution.take_array<double>(sequences * cols);
      combine_pieces(execution, unit_sums.get(), Add{}, sequences, pieces, cols, sums.get());
      for_blocks(execution, 1, MeanCosine{sums.get(), sequences, tokens, cols, at(layout.cosine)});
    }
    if (maxima) combine_pieces(execution, maxima.get(), Max{}, 1, sequences * pieces, cols, at(layout.columns));
  }
  if (search) {
    write_largest(execution, *search, search->search(o.x, largest), layout, at(layout.magnitudes), at(layout.entries));
  }
  if (layout.median >= 0) write_median<T>(execution, o.x, at(layout.median));
}

}  // namespace

void CudaBackend::run(const op::Measure& o) const {
  with_type(o.x.dtype(), [&]<class T>(T) { measure_signal<T>(execution_, o); });
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
