"""Mangled names: whose they are, by their namespaces, how they read, and which string ABI they are of.

Mangling: Itanium C++ ABI, section 5.1.  Nothing here trusts a name: the demangler bounds its depth, its substitutions
and its output, and gives a name that it can't read back as it is.
"""

from __future__ import annotations

import re
from functools import lru_cache

_LONGEST = 4096  # a mangled name that is read; torch's longest export has 5000 characters, its functions below 1500
_READABLE = 16_384  # characters of a name that is read: substitutions double with each few characters of a made-up name
_SHOWN = 240

# The first namespace of a name: of a function or variable, a virtual table, typeinfo, a guard or a thunk.
_LEADING = re.compile(r"_Z(?:T[VTISC]|GV|GR|T[hv]n?[0-9]+_(?:n?[0-9]+_)?)*N[KVrRO]*([0-9]+)")
_GLOBAL = re.compile(r"_Z(?:T[VTISC]|GV|GR)*([0-9]+)")
_STD = re.compile(
    r"_Z(?:T[VTISC]|GV|GR)*(?:N[KVrRO]*)?(?:S[tabsiod]|9__gnu_cxx|10__cxxabiv1)|_Z(?:nw|na|dl|da)|__cxa_|__gxx_|__once_"
)
#: Namespaces of torch's own C++, which no release promises to keep.
TORCH_NAMESPACES = frozenset({"at", "c10", "torch", "caffe2", "aten"})
#: Below ``torch``: headers alone, compiled into the extension; their names are the extension's own.
_HEADERS = ("6stable", "10headeronly")
_SHIM = re.compile(r"(?:aoti_torch_|torch_)[A-Za-z0-9_]+")
_TORCH_C = re.compile(r"(?:_Z[0-9]+)?(?:THP|THCP|THD)[A-Z][A-Za-z0-9_]*")
_PYTHON = re.compile(r"_?Py[A-Z_][A-Za-z0-9_]*")


def namespace(name: str) -> str:
    """The outermost namespace or class of a C++ name; "" for a name without one, or of C."""
    match = _LEADING.match(name)
    if match is None or len(match[1]) > 4:
        return ""
    start, length = match.end(), int(match[1])
    return name[start : start + length] if len(name) >= start + length else ""


def identifier(name: str) -> str:
    """The function or variable of a C++ name without a namespace; "" for any other name."""
    match = _GLOBAL.match(name)
    if match is None or len(match[1]) > 4:
        return ""
    return name[match.end() : match.end() + int(match[1])]


def is_shim(name: str) -> bool:
    """Whether a name is of torch's stable C interface (``torch/csrc/stable/c/shim.h`` and what it includes)."""
    return _SHIM.fullmatch(name) is not None


def is_torch_cxx(name: str) -> bool:
    """Whether a name is of torch's C++, or of the C of its Python binding, neither of which is stable."""
    outer = namespace(name)
    if outer in TORCH_NAMESPACES:
        start = name.find(f"{len(outer)}{outer}") + len(str(len(outer))) + len(outer)
        return not (outer == "torch" and name.startswith(_HEADERS, start))
    return _TORCH_C.match(name) is not None


def is_python(name: str) -> bool:
    """Whether a name is of CPython's C API, or of what it keeps for itself."""
    return _PYTHON.fullmatch(name) is not None


def is_std(name: str) -> bool:
    """Whether a name is of the C++ library: ``std``, ``__gnu_cxx``, ``__cxxabiv1``, operators new and delete."""
    return _STD.match(name) is not None


@lru_cache(maxsize=2048)
def demangled(name: str) -> str:
    """How a name reads; the name itself where it is none of C++ or Rust, or cannot be read within bounds."""
    if len(name) > _LONGEST or not name.startswith(("_Z", "_R")):
        return name
    import demangle  # 15 ms, and needed for what is missing alone

    return demangle.demangle(name, language=("itanium", "rust"), limits=demangle.Limits(max_output=_READABLE))


def shown(name: str) -> str:
    """A name for a finding: demangled, and shortened where it is long."""
    text = demangled(name)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


_NEW_STRING = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>"
_OLD_STRING = "std::basic_string<char, std::char_traits<char>, std::allocator<char>>"


def without_string_abi(readable: str) -> str:
    """A demangled name in which both string ABIs read the same: GCC's ``_GLIBCXX_USE_CXX11_ABI`` (GCC manual, "Dual
    ABI") puts ``std::string`` and ``std::list`` into ``std::__cxx11``, and tags what returns one with ``[abi:cxx11]``.
    """
    text = readable.replace(_NEW_STRING, "std::string").replace(_OLD_STRING, "std::string")
    return text.replace("std::__cxx11::", "std::").replace("[abi:cxx11]", "")


def is_old_string_abi(name: str) -> bool:
    """Whether a C++ name speaks of the string from before C++11: the substitution ``Ss``, or its template spelt out."""
    return name.startswith("_Z") and "std::string" in demangled(name).replace(_OLD_STRING, "std::string")


def is_new_string_abi(name: str) -> bool:
    """Whether a C++ name speaks of the C++11 string, or bears its tag."""
    return name.startswith("_Z") and ("__cxx11" in name or "B5cxx11" in name)
