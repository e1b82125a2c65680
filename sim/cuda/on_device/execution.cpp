#include "sim/cuda/execution.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include "sim/cuda/on_device/blas.h"
#include "sim/cuda/on_device/errors.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

/// The CUDA stream of one Execution. Buffers share ownership of it, since they may outlive the Execution.
class Stream {
 public:
  Stream() {
    int devices = 0;
    check(cudaGetDeviceCount(&devices), "GPU detection");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a CUDA stream");
    // The pool never returns freed memory to the system, since every op allocates and frees tensors.
    cudaMemPool_t pool = nullptr;
    std::uint64_t threshold = std::numeric_limits<std::uint64_t>::max();
    check(cudaDeviceGetDefaultMemPool(&pool, 0), "GPU memory pool");
    check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold), "GPU memory pool");
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { (void)cudaStreamDestroy(stream_); }
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A launch between two events.
struct Timed {
  KernelUse* use;
  cudaEvent_t begin, end;
};

/// Page-locked host memory, which the GPU accesses directly. Copies are staged through it in pieces.
class PinnedMemory {
 public:
  static constexpr std::size_t size = std::size_t{16} << 20U;

  PinnedMemory() { check(cudaMallocHost(&memory_, size), "allocating pinned memory"); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory() { (void)cudaFreeHost(memory_); }

  [[nodiscard]] std::byte* begin() const { return static_cast<std::byte*>(memory_); }
  /// Returns a part of at most `bytes` bytes and sets `bytes` to its size. Waits for the stream if no part is free.
  [[nodiscard]] std::byte* take(std::size_t& bytes, cudaStream_t stream) {
    constexpr std::size_t piece = size / 4;
    bytes = std::min(bytes, piece);
    if (used_ + bytes > size) {
      check(cudaStreamSynchronize(stream), "copy to the GPU");
      used_ = 0;
    }
    std::byte* const part = static_cast<std::byte*>(memory_) + used_;
    used_ += (bytes + 255) / 256 * 256;
    return part;
  }

 private:
  void* memory_ = nullptr;
  std::size_t used_ = 0;
};

}  // namespace

struct Execution::State {
  explicit State(const Options& options) : blas(stream->get(), options.tf32) {}

  std::shared_ptr<Stream> stream = std::make_shared<Stream>();
  Blas blas;
  std::mutex mutex;  // guards the members below
  PinnedMemory to_device;
  PinnedMemory to_host;
  std::vector<Timed> timed;  // launches of the profile
};

Execution::Execution(const Options& options) : options_(options), state_(std::make_unique<State>(options)) {}
Execution::~Execution() = default;

Launch::Launch(const Execution& execution, const char* kernel)
    : use(use_of(execution.options_.profile, kernel)), execution_(execution) {
  if (use == nullptr) return;
  Timed timed{use, nullptr, nullptr};
  check(cudaEventCreate(&timed.begin), "creating a CUDA event");
  check(cudaEventCreate(&timed.end), "creating a CUDA event");
  check(cudaEventRecord(timed.begin, execution.state_->stream->get()), "timing");
  execution.state_->timed.push_back(timed);
}

Launch::~Launch() {
  if (use != nullptr) (void)cudaEventRecord(execution_.state_->timed.back().end, execution_.state_->stream->get());
}

Device Execution::device() const { return Device::cuda; }
void* Execution::stream() const { return state_->stream->get(); }

std::shared_ptr<void> Execution::take(std::size_t bytes) const {
  void* memory = nullptr;
  const std::size_t size = std::max<std::size_t>(1, bytes);
  const cudaStream_t stream = state_->stream->get();
  cudaError_t status = cudaMallocAsync(&memory, size, stream);
  if (status == cudaErrorMemoryAllocation) {  // retry after returning fragmented pool memory
    (void)cudaGetLastError();
    cudaMemPool_t pool = nullptr;
    check(cudaStreamSynchronize(stream), "GPU synchronization");
    check(cudaDeviceGetDefaultMemPool(&pool, 0), "GPU memory pool");
    check(cudaMemPoolTrimTo(pool, 0), "GPU memory pool");
    status = cudaMallocAsync(&memory, size, stream);
  }
  check(status, "allocating a tensor");
  return {memory, [owner = state_->stream](void* p) { (void)cudaFreeAsync(p, owner->get()); }};
}

void Execution::upload(const void* from, void* to, std::size_t bytes) const {
  const Launch launch(*this, "upload");
  const std::scoped_lock lock(state_->mutex);
  const cudaStream_t stream = state_->stream->get();
  for (std::size_t done = 0; done < bytes;) {
    std::size_t piece = bytes - done;
    std::byte* const part = state_->to_device.take(piece, stream);
    std::memcpy(part, static_cast<const std::byte*>(from) + done, piece);
    check(cudaMemcpyAsync(static_cast<std::byte*>(to) + done, part, piece, cudaMemcpyHostToDevice, stream),
          "copy to the GPU");
    done += piece;
  }
}

std::vector<std::byte> Execution::download(std::span<const DevicePart> parts) const {
  const std::scoped_lock lock(state_->mutex);
  const cudaStream_t stream = state_->stream->get();
  std::size_t total = 0;
  for (const DevicePart& part : parts) total += part.bytes;
  std::vector<std::byte> bytes(total);
  struct Piece {
    const std::byte* from;
    std::byte* to;
    std::size_t size;
  };
  std::vector<Piece> pending;  // copied to pinned memory, but not yet to `bytes`
  std::size_t used = 0;
  const auto finish = [&] {
    check(cudaStreamSynchronize(stream), "copy from the GPU");
    for (const Piece& piece : pending) std::memcpy(piece.to, piece.from, piece.size);
    pending.clear();
    used = 0;
  };
  std::byte* const pinned = state_->to_host.begin();
  std::byte* to = bytes.data();
  for (const DevicePart& part : parts) {
    for (std::size_t done = 0; done < part.bytes;) {
      if (used == PinnedMemory::size) finish();
      const std::size_t piece = std::min(part.bytes - done, PinnedMemory::size - used);
      const Launch launch(*this, "download");
      check(cudaMemcpyAsync(pinned + used, static_cast<const std::byte*>(part.data) + done, piece,
                            cudaMemcpyDeviceToHost, stream),
            "copy from the GPU");
      pending.push_back({pinned + used, to, piece});
      used += piece;
      done += piece;
      to += piece;
    }
  }
  finish();
  for (const Timed& timed : std::exchange(state_->timed, {})) {
    float milliseconds = 0.0F;
    check(cudaEventElapsedTime(&milliseconds, timed.begin, timed.end), "timing");
    timed.use->seconds += 1e-3 * static_cast<double>(milliseconds);
    (void)cudaEventDestroy(timed.begin);
    (void)cudaEventDestroy(timed.end);
  }
  return bytes;
}

void Execution::fill_zero(void* to, std::size_t bytes) const {
  const Launch launch(*this, "fill with zeros");
  check(cudaMemsetAsync(to, 0, bytes, state_->stream->get()), "filling GPU memory");
}

void Execution::product(const Product& p) const {
  if (p.m == 0 || p.n == 0 || p.count == 0) return;
  const Launch launch(*this, "product");
  state_->blas.product(p);
}

void Execution::cholesky(double* gram, Index n, int* info) const {
  const Launch launch(*this, "cholesky");
  state_->blas.cholesky(*this, gram, n, info);
}

void Execution::solve_lower(const double* lower, Index n, double* x, Index cols) const {
  const Launch launch(*this, "solve");
  state_->blas.solve_lower(lower, n, x, cols);
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
