// axpy._host: the same two operations on the CPU, without any device code. The GPU's results are held against them.
#include "vectors.h"

template <typename T>
static void axpy(T a, const T *x, T *y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = a * x[i] + y[i];
}

template <typename T>
static double dot(const T *x, const T *y, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += double(x[i]) * double(y[i]);
  return sum;
}

static PyObject *py_axpy(PyObject *, PyObject *args) {
  double a;
  PyObject *x, *y;
  if (!PyArg_ParseTuple(args, "dOO:axpy", &a, &x, &y)) return nullptr;
  Vectors vectors;
  if (!vectors.take(x, y, true)) return nullptr;
  if (vectors.doubles()) {
    axpy(a, vectors.x<double>(), vectors.y<double>(), vectors.count());
  } else {
    axpy(float(a), vectors.x<float>(), vectors.y<float>(), vectors.count());
  }
  Py_RETURN_NONE;
}

static PyObject *py_dot(PyObject *, PyObject *args) {
  PyObject *x, *y;
  if (!PyArg_ParseTuple(args, "OO:dot", &x, &y)) return nullptr;
  Vectors vectors;
  if (!vectors.take(x, y, false)) return nullptr;
  return PyFloat_FromDouble(vectors.doubles() ? dot(vectors.x<double>(), vectors.y<double>(), vectors.count())
                                              : dot(vectors.x<float>(), vectors.y<float>(), vectors.count()));
}

static PyMethodDef methods[] = {
    {"axpy", py_axpy, METH_VARARGS, "axpy(a, x, y): y = a * x + y in place, on the CPU."},
    {"dot", py_dot, METH_VARARGS, "dot(x, y): the dot product, on the CPU."},
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "axpy._host", "axpy on the CPU.", 0, methods,
                             nullptr,               nullptr,      nullptr,            nullptr};

PyMODINIT_FUNC PyInit__host(void) { return PyModule_Create(&module); }
