// Two vectors of one length and one type ('f' or 'd') out of two Python buffers; abi3 from CPython 3.11 on.
#pragma once
#include <Python.h>
#include <cstddef>
#include <cstring>

class Vectors {
 public:
  Vectors() = default;
  Vectors(const Vectors &) = delete;
  Vectors &operator=(const Vectors &) = delete;
  ~Vectors() {
    if (held_ > 1) PyBuffer_Release(&y_);
    if (held_ > 0) PyBuffer_Release(&x_);
  }

  // False, with a Python error set, where the two are not contiguous float or double vectors of one length.
  bool take(PyObject *x, PyObject *y, bool write_y) {
    if (PyObject_GetBuffer(x, &x_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) return false;
    held_ = 1;
    int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (write_y ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(y, &y_, flags) != 0) return false;
    held_ = 2;
    const char *format = x_.format != nullptr ? x_.format : "B";
    const char *other = y_.format != nullptr ? y_.format : "B";
    if ((std::strcmp(format, "f") != 0 && std::strcmp(format, "d") != 0) || std::strcmp(format, other) != 0) {
      PyErr_Format(PyExc_TypeError, "two vectors of float ('f') or of double ('d') are wanted, not '%s' and '%s'",
                   format, other);
      return false;
    }
    if (x_.len != y_.len) {
      PyErr_SetString(PyExc_ValueError, "the two vectors differ in length");
      return false;
    }
    doubles_ = format[0] == 'd';
    return true;
  }

  bool doubles() const { return doubles_; }
  size_t count() const { return size_t(x_.len) / (doubles_ ? sizeof(double) : sizeof(float)); }
  template <typename T> const T *x() const { return static_cast<const T *>(x_.buf); }
  template <typename T> T *y() const { return static_cast<T *>(y_.buf); }

 private:
  Py_buffer x_ = {};
  Py_buffer y_ = {};
  int held_ = 0;
  bool doubles_ = false;
};
