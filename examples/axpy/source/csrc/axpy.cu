#include "device.cuh"
#include "ops.h"

template <typename T>
__global__ void axpy_kernel(T a, const T *x, T *y, size_t n) {
  size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) y[i] = a * x[i] + y[i];
}

template <typename T>
static int run(T a, const T *x, T *y, size_t n) {
  if (n == 0) return 0;
  Buffer<T> dx, dy;
  AXPY_TRY(dx.allocate(n));
  AXPY_TRY(dy.allocate(n));
  AXPY_TRY(cudaMemcpy(dx.get(), x, n * sizeof(T), cudaMemcpyHostToDevice));
  AXPY_TRY(cudaMemcpy(dy.get(), y, n * sizeof(T), cudaMemcpyHostToDevice));
  axpy_kernel<T><<<blocks_for(n), kThreads>>>(a, dx.get(), dy.get(), n);
  AXPY_TRY(cudaGetLastError());
  AXPY_TRY(cudaMemcpy(y, dy.get(), n * sizeof(T), cudaMemcpyDeviceToHost));
  return 0;
}

int axpy_float(float a, const float *x, float *y, size_t n) { return run(a, x, y, n); }
int axpy_double(double a, const double *x, double *y, size_t n) { return run(a, x, y, n); }

int device_count() {
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  return status == cudaSuccess ? count : -int(status);
}

const char *error_name(int code) { return cudaGetErrorName(cudaError_t(code)); }
