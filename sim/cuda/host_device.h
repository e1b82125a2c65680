#pragma once

/// This folder is compiled twice: by nvcc for the GPU, and by the C++ compiler with loops in place of GPU threads. This
/// "host execution" tests the code and counts its memory accesses without a GPU. Each version has its own namespace,
/// since a program may contain both.
#ifdef __CUDACC__
#define PERISCOPE_HOST_DEVICE __host__ __device__
#define PERISCOPE_CUDA_TARGET on_device
#else
#define PERISCOPE_HOST_DEVICE
#define PERISCOPE_CUDA_TARGET on_host
#endif
