#include <algorithm>
#include <bit>

#include "sim/cuda/moments.h"
#include "sim/cuda/ops.h"
#include "sim/cuda/tile.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

/// Measures one signal in two passes over its elements.
template <class T>
class Measurement {
 public:
  Measurement(const Execution& execution, const op::Measure& o)
      : execution_(execution), o_(o), x_(data<T>(o.x)), rows_(o.x.rows()), cols_(o.x.cols()) {
    magnitudes_ = o.layout.magnitudes < 0 ? 0 : o.layout.magnitude_count;
    entries_ = o.layout.entries < 0 ? 0 : o.layout.entry_count;
    const Index largest = std::max(magnitudes_, entries_);
    if (largest > 0) add_search(largest, false, entries_ > 0 ? static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size()))) : 0);
    if (o.layout.median >= 0) {
      add_search(size() / 2 + 1, true, 0);
      if (size() % 2 == 0) add_search(size() / 2, true, 0);
    }
    if (searches_.count > 0) allocate_counts();
    if (o.layout.cosine >= 0) inverse_lengths_ = execution.take_array<double>(rows_);
  }

  void run() const {
    const StatisticsLayout& layout = o_.layout;
    const auto at = [this](Index place) { return place < 0 ? nullptr : data<double>(o_.numbers) + place; };
    const MeasureRows<T> kernel{.x = x_,
                                .other = layout.dots < 0 ? nullptr : data<T>(o_.request.dots_with),
                                .rows = rows_,
                                .n = cols_,
                                .moments = at(layout.moments),
                                .squares = at(layout.squares),
                                .dots = at(layout.dots),
                                .inverse_lengths = inverse_lengths_.get(),
                                .counts = counts_,
                                .count_all = layout.median >= 0};
    if (kernel.moments || kernel.squares || kernel.dots || kernel.inverse_lengths || kernel.counts) {
      measure_rows(execution_, kernel);
    }
    if (searches_.count > 0 || layout.cosine >= 0 || layout.columns >= 0) measure_tiles();
    find_digits();
    if (magnitudes_ + entries_ > 0) write_largest();
    if (layout.median >= 0) {
      const Search<T>* const last = searches_.all + searches_.count - 1;
      for_blocks(execution_, 1, WriteMedian<T>{size() % 2 == 0 ? last[-1] : last[0], last[0], at(layout.median)});
    }
  }

 private:
  [[nodiscard]] Index size() const { return rows_ * cols_; }
  [[nodiscard]] double* out(Index place) const { return data<double>(o_.numbers) + std::max<Index>(0, place); }

  void add_search(Index rank, bool one_digit, int order_bits) {
    Search<T>& search = searches_.all[searches_.count++];
    search.rank = static_cast<unsigned>(rank);
    search.one_digit = one_digit;
    search.order_bits = order_bits;
    search.candidates = kept<unsigned>(size());
    search.found = kept<Found>(search.digits() + 1);
  }

  /// Zeros for the counts of MeasureRows, of Choose and of all searches.
  void allocate_counts() {
    const auto size_of = [](const Search<T>& search) { return 1 + search.digits() * bins; };
    Index count = bins + 1;
    for (int s = 0; s < searches_.count; ++s) count += size_of(searches_.all[s]);
    counts_ = kept<unsigned>(count);
    execution_.fill_zero(counts_, static_cast<std::size_t>(count) * sizeof(unsigned));
    unsigned* next = counts_ + bins + 1;
    for (int s = 0; s < searches_.count; ++s) {
      searches_.all[s].counts = next;
      next += size_of(searches_.all[s]);
    }
  }

  template <class Number>
  Number* kept(Index count) {
    const std::shared_ptr<Number> memory = execution_.take_array<Number>(count);
    memory_.push_back(memory);
    return memory.get();
  }

  void measure_tiles() const {
    const Index sequences = o_.layout.cosine < 0 ? 1 : o_.request.cosine_of_sequences;
    const Index tokens = rows_ / sequences;
    const Index pieces = (tokens + piece_rows - 1) / piece_rows;
    const Index partial_size = sequences * pieces * cols_;
    std::shared_ptr<double> unit_sums, maxima;
    if (o_.layout.cosine >= 0) unit_sums = execution_.take_array<double>(partial_size);
    if (o_.layout.columns >= 0) maxima = execution_.take_array<double>(partial_size);
    using Tile = MeasureTile<T>;
    for_blocks(execution_, sequences * pieces * ((cols_ + Tile::cols - 1) / Tile::cols),
               Tile{x_, cols_, tokens, pieces, inverse_lengths_.get(), unit_sums.get(), maxima.get(), counts_,
                    searches_});
    if (o_.layout.cosine >= 0) {
      const Index blocks = blocks_for(sequences * cols_);
      const std::shared_ptr<double> squares = execution_.take_array<double>(blocks);
      for_blocks(execution_, blocks, SquareUnitSums{unit_sums.get(), sequences, pieces, cols_, squares.get()});
      for_blocks(execution_, 1, MeanCosine{squares.get(), blocks, sequences, tokens, out(o_.layout.cosine)});
    }
    if (o_.layout.columns >= 0) {
      for_each(execution_, cols_,
               CombinePieces<double, Max>{maxima.get(), Max{}, sequences * pieces, cols_, out(o_.layout.columns)});
    }
  }

  void find_digits() const {
    int digits = 0;
    for (const Search<T>& search : searches_.all) digits = std::max(digits, search.digits());
    const Index blocks = search_blocks(size());
    for (int d = 0; d < digits && searches_.count > 0; ++d) {
      for_blocks(execution_, searches_.count * blocks, CountDigit<T>{x_, searches_, d, blocks});
    }
  }

  void write_largest() const {
    const Search<T>& search = searches_.all[0];
    const std::shared_ptr<Chosen<T>> chosen = execution_.take_array<Chosen<T>>(search.rank);
    unsigned* const count = counts_ + bins;
    const Index blocks = search_blocks(size());
    for_blocks(execution_, blocks, Choose<T>{x_, search, blocks, chosen.get(), count});
    for_each(execution_, search.rank,
             WriteLargest<T>{x_, chosen.get(), count, search.found + search.digits(), cols_, magnitudes_,
                             out(o_.layout.magnitudes), entries_, out(o_.layout.entries)});
  }

  const Execution& execution_;
  const op::Measure& o_;
  const T* x_;
  Index rows_, cols_;
  Index magnitudes_ = 0, entries_ = 0;  ///< numbers of largest elements to write
  Searches<T> searches_;
  unsigned* counts_ = nullptr;               ///< null without searches
  std::shared_ptr<double> inverse_lengths_;  ///< null without the cosine
  std::vector<std::shared_ptr<void>> memory_;
};

}  // namespace

void CudaBackend::run(const op::Measure& o) const {
  with_type(o.x.dtype(), [&]<class T>(T) { Measurement<T>(execution_, o).run(); });
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
