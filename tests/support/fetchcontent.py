"""A small real project whose CMake fetches three others, served by a git server on loopback.

``alpha`` is pinned by its commit, has a submodule and is read from ALPHA_SRC_DIR; ``beta`` is pinned by a tag and read
from BETA_SRC_DIR; ``gamma`` is pinned by its commit, and the tree reads no variable for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from qualify.matrix import LoadedMatrix, load
from tests.support.gitserver import GitServer
from tests.unit.builders_support import git, write_tree

ADDRESS = "https://git.example.org/"  # what the tree names; the site's git_mirrors lead to the server on loopback

_CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(trio C)
include(FetchContent)
if(DEFINED ENV{ALPHA_SRC_DIR})
  FetchContent_Declare(alpha SOURCE_DIR $ENV{ALPHA_SRC_DIR})
else()
  FetchContent_Declare(alpha GIT_REPOSITORY %(address)salpha.git GIT_TAG %(alpha)s GIT_SUBMODULES deep)
endif()
if(DEFINED ENV{BETA_SRC_DIR})
  FetchContent_Declare(beta SOURCE_DIR $ENV{BETA_SRC_DIR})
else()
  FetchContent_Declare(beta GIT_REPOSITORY %(address)sbeta.git GIT_TAG v2.0)
endif()
FetchContent_Declare(gamma GIT_REPOSITORY %(address)sgamma.git GIT_TAG %(gamma)s)
FetchContent_MakeAvailable(alpha beta gamma)
add_library(_ext MODULE ext.c)
target_include_directories(_ext PRIVATE
  ${alpha_SOURCE_DIR} ${beta_SOURCE_DIR} ${gamma_SOURCE_DIR} $ENV{TRIO_PYTHON_INCLUDE})
set_target_properties(_ext PROPERTIES PREFIX "" SUFFIX ".abi3.so" LIBRARY_OUTPUT_DIRECTORY ${TRIO_OUTPUT})
"""

_SETUP = """\
import os, subprocess, sysconfig
from pathlib import Path
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

class Build(build_ext):
    def build_extension(self, ext):
        where = Path(self.get_ext_fullpath(ext.name)).resolve().parent
        os.makedirs(self.build_temp, exist_ok=True)
        environment = dict(os.environ, TRIO_PYTHON_INCLUDE=sysconfig.get_paths()["include"])
        here = Path(__file__).resolve().parent
        subprocess.check_call(["cmake", str(here), "-G", "Ninja", f"-DTRIO_OUTPUT={where}"], cwd=self.build_temp,
                              env=environment)
        subprocess.check_call(["cmake", "--build", "."], cwd=self.build_temp, env=environment)

setup(ext_modules=[Extension("trio._ext", [], py_limited_api=True)], cmdclass={"build_ext": Build},
      packages=["trio"], options={"bdist_wheel": {"py_limited_api": "cp311"}})
"""

_EXT = """\
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include "alpha.h"
#include "deep/deep.h"
#include "beta.h"
#include "gamma.h"
static PyObject *total(PyObject *self, PyObject *unused) { return PyLong_FromLong(ALPHA + DEEP + BETA + GAMMA); }
static PyMethodDef methods[] = {{"total", total, METH_NOARGS, 0}, {0, 0, 0, 0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_ext", 0, -1, methods};
PyMODINIT_FUNC PyInit__ext(void) { return PyModule_Create(&module); }
"""

_PYPROJECT = """\
[build-system]
requires = ["setuptools>=77", "cmake>=3.26", "ninja"]
build-backend = "setuptools.build_meta"
[project]
name = "trio"
version = "1.0"
"""

_MATRIX = """\
version: 1
project: {name: trio, import_name: trio, version_module: ""}
pin:
  repository: %(address)strio.git
  requirement: ""
  source: {git: ""}
  commit: "%(commit)s"
build:
  expects_device_code: false
  tools:
    - {name: cmake, minimum: "3.18"}
    - {name: ninja}
    - {name: c++}
    - {name: python.h}
  external_sources: [CMakeLists.txt]
  memory_per_job: 1
targets:
  x86_64-sm90:
    machine: x86_64
    compute_capability: "9.0"
    python: ["3.11", "3.12", "3.13"]
    base: {bootstrap: debian-12}
    toolkit: "13.0.3"
    arch_list: "9.0"
    ceilings: {glibc: "2.36", glibcxx: "3.4.30"}
    driver: {oldest_cuda: "13.0"}
"""


@dataclass(frozen=True)
class Trio:
    """The project, its three sources and the server that has them."""

    matrix: Path
    server: GitServer
    commits: dict[str, str]

    def loaded(self) -> LoadedMatrix:
        return load(self.matrix)

    def move_tag(self) -> str:
        """Let ``beta``'s tag name another commit; that commit."""
        folder = self.server.root / "beta.git"
        (folder / "beta.h").write_text("#define BETA 2000\n")
        git(folder, "commit", "-qam", "another")
        git(folder, "tag", "-f", "v2.0")
        return git(folder, "rev-parse", "HEAD")


def make_trio(folder: Path, server: GitServer) -> Trio:
    """Make the repositories on the server, and a matrix with its local settings in ``folder``."""
    deep = _repository(server, "deep", {"deep.h": "#define DEEP 10\n"})
    alpha = _repository(server, "alpha", {"alpha.h": "#define ALPHA 1\n"}, submodule="deep")
    beta = _repository(server, "beta", {"beta.h": "#define BETA 100\n"}, tag="v2.0")
    gamma = _repository(server, "gamma", {"gamma.h": "#define GAMMA 1000\n"})
    names = {"address": ADDRESS, "alpha": alpha, "gamma": gamma}
    tree = {
        "CMakeLists.txt": _CMAKE % names,
        "setup.py": _SETUP,
        "ext.c": _EXT,
        "pyproject.toml": _PYPROJECT,
        "trio/__init__.py": "from trio._ext import total\n",
    }
    commit = _repository(server, "trio", tree)
    folder.mkdir(parents=True, exist_ok=True)
    matrix = folder / "matrix.yaml"
    matrix.write_text(_MATRIX % {"address": ADDRESS, "commit": commit})
    (folder / "matrix.local.yaml").write_text(
        f'version: 1\nfolders: {{store: store}}\ngit_mirrors: {{"{ADDRESS}": "{server.url}/"}}\n'
    )
    return Trio(matrix, server, {"deep": deep, "alpha": alpha, "beta": beta, "gamma": gamma, "trio": commit})


def _repository(server: GitServer, name: str, files: dict[str, str], *, tag: str = "", submodule: str = "") -> str:
    folder = server.root / f"{name}.git"
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    write_tree(folder, files)
    if submodule:
        source = str(server.root / f"{submodule}.git")
        git(folder, "-c", "protocol.file.allow=always", "submodule", "add", "-q", source, submodule)
        git(folder, "config", "-f", ".gitmodules", f"submodule.{submodule}.url", f"{ADDRESS}{submodule}.git")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    if tag:
        git(folder, "tag", tag)
    server.configure(f"{name}.git", uploadpack_allowFilter="true", uploadpack_allowAnySHA1InWant="true")
    return git(folder, "rev-parse", "HEAD")
