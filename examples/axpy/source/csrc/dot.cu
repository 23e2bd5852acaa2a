#include "device.cuh"
#include "ops.h"

template <typename T>
__global__ void dot_kernel(const T *x, const T *y, size_t n, T *out) {
  __shared__ T partial[kThreads];
  T sum = 0;
  size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) sum += x[i] * y[i];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, partial[0]);
}

template <typename T>
static int run(const T *x, const T *y, size_t n, T *out) {
  *out = 0;
  if (n == 0) return 0;
  Buffer<T> dx, dy, total;
  AXPY_TRY(dx.allocate(n));
  AXPY_TRY(dy.allocate(n));
  AXPY_TRY(total.allocate(1));
  AXPY_TRY(cudaMemcpy(dx.get(), x, n * sizeof(T), cudaMemcpyHostToDevice));
  AXPY_TRY(cudaMemcpy(dy.get(), y, n * sizeof(T), cudaMemcpyHostToDevice));
  AXPY_TRY(cudaMemset(total.get(), 0, sizeof(T)));
  dot_kernel<T><<<blocks_for(n), kThreads>>>(dx.get(), dy.get(), n, total.get());
  AXPY_TRY(cudaGetLastError());
  AXPY_TRY(cudaMemcpy(out, total.get(), sizeof(T), cudaMemcpyDeviceToHost));
  return 0;
}

int dot_float(const float *x, const float *y, size_t n, float *out) { return run(x, y, n, out); }
int dot_double(const double *x, const double *y, size_t n, double *out) { return run(x, y, n, out); }
