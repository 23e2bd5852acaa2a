// axpy._C: the kernels, for Python. Importing it touches no driver; calling it without a GPU raises RuntimeError.
#include "vectors.h"

#include "ops.h"

static PyObject *failed(int code) {
  PyErr_Format(PyExc_RuntimeError, "axpy needs a CUDA GPU that runs its kernels: %s (CUDA error %d)", error_name(code),
               code);
  return nullptr;
}

static PyObject *py_axpy(PyObject *, PyObject *args) {
  double a;
  PyObject *x, *y;
  if (!PyArg_ParseTuple(args, "dOO:axpy", &a, &x, &y)) return nullptr;
  Vectors vectors;
  if (!vectors.take(x, y, true)) return nullptr;
  int code = vectors.doubles() ? axpy_double(a, vectors.x<double>(), vectors.y<double>(), vectors.count())
                               : axpy_float(float(a), vectors.x<float>(), vectors.y<float>(), vectors.count());
  if (code != 0) return failed(code);
  Py_RETURN_NONE;
}

static PyObject *py_dot(PyObject *, PyObject *args) {
  PyObject *x, *y;
  if (!PyArg_ParseTuple(args, "OO:dot", &x, &y)) return nullptr;
  Vectors vectors;
  if (!vectors.take(x, y, false)) return nullptr;
  double out = 0;
  float single = 0;
  int code = vectors.doubles() ? dot_double(vectors.x<double>(), vectors.y<double>(), vectors.count(), &out)
                               : dot_float(vectors.x<float>(), vectors.y<float>(), vectors.count(), &single);
  if (code != 0) return failed(code);
  return PyFloat_FromDouble(vectors.doubles() ? out : double(single));
}

static PyObject *py_device_count(PyObject *, PyObject *) {
  int count = device_count();
  return count < 0 ? failed(-count) : PyLong_FromLong(count);
}

static PyMethodDef methods[] = {
    {"axpy", py_axpy, METH_VARARGS, "axpy(a, x, y): y = a * x + y in place, on the GPU."},
    {"dot", py_dot, METH_VARARGS, "dot(x, y): the dot product, on the GPU."},
    {"device_count", py_device_count, METH_NOARGS, "device_count(): how many GPUs there are."},
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "axpy._C", "Kernels of axpy.", 0, methods,
                             nullptr,               nullptr,   nullptr,            nullptr};

PyMODINIT_FUNC PyInit__C(void) { return PyModule_Create(&module); }
