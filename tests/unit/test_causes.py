"""The first true cause of a build that failed."""

from __future__ import annotations

import pytest

from builders.causes import first_cause

CASES = {
    "missing header below CMake's report": (
        """\
  -- The CXX compiler identification is GNU 12.2.0
  CMake Error at CMakeDetermineCompilerId.cmake:966 (message):
    Compiling the CUDA compiler identification source file
    "CMakeCUDACompilerId.cu" failed.

    tmp/CMakeCUDACompilerId.fatbin.c:2:10: fatal error: fatbinary_section.h: No
    such file or directory
  subprocess.CalledProcessError: Command '['cmake']' returned non-zero exit status 1.
""",
        "missing header",
        "fatbinary_section.h",
    ),
    "killed": (
        """\
  [1/2] c++ -c a.cpp
  c++: fatal error: Killed signal terminated program cc1plus
  compilation terminated.
  ninja: build stopped: subcommand failed.
  RuntimeError: Error compiling objects for extension
""",
        "killed",
        "cc1plus",
    ),
    "requirement": (
        """\
  Traceback (most recent call last):
    File "<string>", line 21, in <module>
  ModuleNotFoundError: No module named 'setuptools_rust'
  error: metadata-generation-failed
""",
        "requirement",
        "setuptools_rust",
    ),
    "unknown architecture": (
        "nvcc fatal   : Unsupported gpu architecture 'compute_999'\nninja: build stopped: subcommand failed.\n",
        "unknown architecture",
        "compute_999",
    ),
    "compile error": (
        'csrc/a.cu(12): error: identifier "x" is undefined\nninja: build stopped: subcommand failed.\n',
        "compile",
        "csrc/a.cu(12)",
    ),
    "link": (
        "/usr/bin/ld: cannot find -lcudart_static: No such file\ncollect2: error: ld returned 1\n",
        "link",
        "-lcudart",
    ),
    "cmake's own": (
        """\
  CMake Error at CMakeLists.txt:8 (message):
    AXPY_GENCODE is empty: set TORCH_CUDA_ARCH_LIST


  -- Configuring incomplete, errors occurred!
""",
        "cmake",
        "set TORCH_CUDA_ARCH_LIST",
    ),
    "python": (
        "    raise ValueError('x')\nValueError: TORCH_CUDA_ARCH_LIST is empty\nerror: subprocess-exited-with-error\n",
        "python",
        "TORCH_CUDA_ARCH_LIST is empty",
    ),
    "network": (
        "  fatal: unable to access 'https://example.org/x.git/': Could not resolve host: example.org\n",
        "network",
        "example.org",
    ),
    "crash": ("foo.cu: internal compiler error: Segmentation fault\n", "compiler crash", "foo.cu"),
    "disk": ("ptxas fatal : No space left on device\n", "disk full", "No space left"),
    "harmless before the cause": (
        "  Pytorch version 2.4.0 expected for CUDA build, saw 2.11.0 instead. error: x\n  ninja: error: loading 'x'\n",
        "build",
        "loading",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_cause(name: str) -> None:
    log, kind, words = CASES[name]
    cause = first_cause(log.splitlines())
    assert cause is not None
    assert cause.kind == kind
    assert words in str(cause)
    assert " ".join(log.splitlines()[cause.line - 1].split()) in str(cause)


def test_a_log_without_a_known_line_has_none() -> None:
    assert first_cause(["Building wheel", "done", "", "warning: error: of the harmless kind"]) is None


def test_colours_are_not_part_of_the_cause() -> None:
    cause = first_cause(["\x1b[31mCMake Error\x1b[0m at x:1", "  no"])
    assert str(cause) == "CMake Error at x:1 no"
