"""The build of axpy: CMake and Ninja behind setuptools, kernels for TORCH_CUDA_ARCH_LIST.

Environment:

AXPY_TARGET_DEVICE       cuda (default), or empty: no extension at all
AXPY_USE_PRECOMPILED     1: compile nothing, as if the extensions came from a released wheel
TORCH_CUDA_ARCH_LIST     "9.0", "9.0a;12.0f", "8.0+PTX": what to compile kernels for; must not be empty
CUDA_HOME, CUDACXX       where nvcc is
CUDAHOSTCXX              the C++ compiler that nvcc calls
CMAKE_ARGS               further arguments for CMake, a toolchain for another machine among them
AXPY_PYTHON_INCLUDE_DIR  the folder of the target's Python.h, where it isn't this interpreter's
MAX_JOBS                 parallel compiles
"""

import os
import re
import shlex
import subprocess
import sysconfig
from pathlib import Path
from shutil import which
from typing import ClassVar

from packaging.version import Version
from setuptools import Distribution, Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools_scm import get_version

ROOT_DIR = Path(__file__).resolve().parent
TARGET_DEVICE = os.environ.get("AXPY_TARGET_DEVICE", "cuda")
USE_PRECOMPILED = os.environ.get("AXPY_USE_PRECOMPILED", "").lower() not in ("", "0", "false", "no")
OLDEST_CMAKE = Version("3.26.1")

if TARGET_DEVICE not in ("cuda", "empty"):
    raise ValueError(f"AXPY_TARGET_DEVICE is {TARGET_DEVICE!r}; expected cuda or empty")

ARCHITECTURE = re.compile(r"(?P<major>[0-9]+)\.(?P<minor>[0-9])(?P<kind>[af]?)(?P<ptx>\+PTX)?")


def gencode_flags(arch_list: str) -> list[str]:
    """``"9.0a;8.0+PTX"`` -> nvcc's flags; an empty list or an unknown name raises ValueError."""
    names = [name for name in re.split(r"[;,\s]+", arch_list) if name]
    if not names:
        raise ValueError("TORCH_CUDA_ARCH_LIST is empty: name what to compile kernels for, 9.0 or 12.1 say")
    flags = []
    for name in names:
        match = ARCHITECTURE.fullmatch(name)
        if match is None:
            raise ValueError(f"TORCH_CUDA_ARCH_LIST: {name!r} is no architecture like 9.0, 12.1, 9.0a or 8.0+PTX")
        number = match["major"] + match["minor"] + match["kind"]
        flags.append(f"-gencode=arch=compute_{number},code=sm_{number}")
        if match["ptx"]:
            flags.append(f"-gencode=arch=compute_{number},code=compute_{number}")
    return flags


def wheel_version() -> str:
    """The version that the metadata states: setuptools-scm's, and the build mode as a suffix.

    ``axpy/_version.py`` is written first, without the suffix: it is what ``axpy.__version__`` says.
    """
    version = get_version(relative_to=str(ROOT_DIR / "setup.py"), version_file="axpy/_version.py")
    separator = "." if "+" in version else "+"
    if USE_PRECOMPILED:
        return f"{version}{separator}precompiled"
    if TARGET_DEVICE == "empty":
        return f"{version}{separator}empty"
    return version


class CMakeExtension(Extension):
    def __init__(self, name: str, cmake_lists_dir: str = ".") -> None:
        super().__init__(name, sources=[], py_limited_api=True)
        self.cmake_lists_dir = str(ROOT_DIR / cmake_lists_dir)


class CMakeBuildExt(build_ext):
    # Folders whose CMakeLists.txt has been configured: one configuration serves every extension of it.
    did_config: ClassVar[dict[str, bool]] = {}

    def compute_num_jobs(self) -> int:
        return int(os.environ.get("MAX_JOBS") or len(os.sched_getaffinity(0)))

    def nvcc(self) -> str | None:
        """CUDACXX, else the nvcc of CUDA_HOME, else what CMake finds on PATH."""
        if os.environ.get("CUDACXX"):
            return os.environ["CUDACXX"]
        if os.environ.get("CUDA_HOME"):
            return str(Path(os.environ["CUDA_HOME"]) / "bin" / "nvcc")
        return None

    def configure(self, ext: CMakeExtension) -> None:
        if ext.cmake_lists_dir in self.did_config:
            return
        self.did_config[ext.cmake_lists_dir] = True
        gencode = ";".join(gencode_flags(os.environ.get("TORCH_CUDA_ARCH_LIST", "")))
        headers = os.environ.get("AXPY_PYTHON_INCLUDE_DIR") or sysconfig.get_config_var("INCLUDEPY")
        arguments = [
            f"-DCMAKE_BUILD_TYPE={'Debug' if self.debug else 'Release'}",
            f"-DAXPY_GENCODE={gencode}",
            f"-DAXPY_PYTHON_INCLUDE_DIR={headers}",
        ]
        if os.environ.get("VERBOSE"):
            arguments.append("-DCMAKE_VERBOSE_MAKEFILE=ON")
        if which("ccache") is not None:
            arguments += [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("CXX", "CUDA")]
        if which("ninja") is not None:
            arguments += ["-G", "Ninja"]
        if (nvcc := self.nvcc()) is not None:
            arguments.append(f"-DCMAKE_CUDA_COMPILER={nvcc}")
        if os.environ.get("CUDAHOSTCXX"):
            arguments.append(f"-DCMAKE_CUDA_HOST_COMPILER={os.environ['CUDAHOSTCXX']}")
        arguments += shlex.split(os.environ.get("CMAKE_ARGS", ""))
        subprocess.check_call(["cmake", ext.cmake_lists_dir, *arguments], cwd=self.build_temp)

    def build_extensions(self) -> None:
        if not self.extensions:
            return
        gencode_flags(os.environ.get("TORCH_CUDA_ARCH_LIST", ""))  # an empty list fails before CMake starts
        try:
            reply = subprocess.check_output(["cmake", "--version"], text=True)
        except OSError as error:
            raise RuntimeError("cmake was not found on PATH") from error
        found = reply.split()[2]
        if Version(found.split("-")[0]) < OLDEST_CMAKE:
            raise RuntimeError(f"cmake {found} is older than {OLDEST_CMAKE}")
        Path(self.build_temp).mkdir(parents=True, exist_ok=True)
        for ext in self.extensions:
            self.configure(ext)
        targets = [ext.name.removeprefix("axpy.") for ext in self.extensions]
        build = ["cmake", "--build", ".", f"-j={self.compute_num_jobs()}", *[f"--target={name}" for name in targets]]
        subprocess.check_call(build, cwd=self.build_temp)
        for ext, target in zip(self.extensions, targets, strict=True):
            # The install rule already says axpy/, so the prefix is the folder above the package.
            prefix = Path(self.get_ext_fullpath(ext.name)).absolute().parent.parent
            install = ["cmake", "--install", ".", "--prefix", str(prefix), "--component", target]
            subprocess.check_call(install, cwd=self.build_temp)


class Abi3Wheel(bdist_wheel):
    """One file for every CPython from 3.11 on."""

    def finalize_options(self) -> None:
        self.py_limited_api = "cp311"
        super().finalize_options()


class PlatformDistribution(Distribution):
    """Wheels bear a platform tag even where nothing was compiled, as in larger packages of this shape."""

    def has_ext_modules(self) -> bool:
        return True


extensions = []
if TARGET_DEVICE == "cuda" and not USE_PRECOMPILED:
    extensions = [CMakeExtension("axpy._C"), CMakeExtension("axpy._host")]

setup(
    version=wheel_version(),
    ext_modules=extensions,
    cmdclass={"build_ext": CMakeBuildExt, "bdist_wheel": Abi3Wheel},
    distclass=PlatformDistribution,
)
