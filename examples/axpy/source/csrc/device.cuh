// Device memory that is given back on every way out of a function.
#pragma once
#include <cuda_runtime.h>
#include <cstddef>

template <typename T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  ~Buffer() { cudaFree(data_); }

  cudaError_t allocate(size_t n) { return cudaMalloc(reinterpret_cast<void **>(&data_), n * sizeof(T)); }
  T *get() const { return data_; }

 private:
  T *data_ = nullptr;
};

#define AXPY_TRY(call)                                 \
  do {                                                 \
    cudaError_t status_ = (call);                      \
    if (status_ != cudaSuccess) return int(status_);   \
  } while (0)

constexpr unsigned kThreads = 256;

inline unsigned blocks_for(size_t n) {
  size_t blocks = (n + kThreads - 1) / kThreads;
  return blocks < 65535 ? unsigned(blocks) : 65535u;
}
