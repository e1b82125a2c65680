#pragma once

/// This room is compiled twice: by nvcc for the GPU, and by the C++ compiler for the host, where loops stand for the
/// threads of a kernel, so that machines without a GPU test the same code. Each way has a namespace of its own, since
/// one program may hold both.
#ifdef __CUDACC__
#define PERISCOPE_HOST_DEVICE __host__ __device__
#define PERISCOPE_CUDA_WAY on_device
#else
#define PERISCOPE_HOST_DEVICE
#define PERISCOPE_CUDA_WAY on_host
#endif
