// What the translation units share. Every function returns a cudaError_t as int, 0 for success.
#pragma once
#include <cstddef>

// y[i] = a * x[i] + y[i]; host memory in, host memory out.
int axpy_float(float a, const float *x, float *y, size_t n);
int axpy_double(double a, const double *x, double *y, size_t n);

// *out = sum of x[i] * y[i].
int dot_float(const float *x, const float *y, size_t n, float *out);
int dot_double(const double *x, const double *y, size_t n, double *out);

// The number of devices, or a negative cudaError_t.
int device_count();
const char *error_name(int code);
