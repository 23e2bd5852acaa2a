"""NVIDIA's ptxas of any toolkit, from the package index, and one small kernel to feed it.

The distributions ``nvidia-cuda-nvcc`` (CUDA 13 and later) and ``nvidia-cuda-nvcc-cu12``/``-cu11`` hold ptxas; it needs
no GPU.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from qualify.arch import PTX_OF_CUDA

KERNEL = "assay_probe"  # writes 42 through its only argument

_BODY = """
.version {isa}
.target {target}
.address_size 64
.visible .entry assay_probe(.param .u64 out)
{{
    .reg .b32 %r<2>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, 42;
    st.global.u32 [%rd2], %r1;
    ret;
}}
"""
_NAME = re.compile(r"'(sm_[0-9]+[af]?)'")


@dataclass(frozen=True)
class Toolkit:
    """The tools of one release."""

    version: str  # "13.5.37"
    ptxas: Path
    fatbinary: Path | None  # the older distributions don't hold it

    @property
    def isa(self) -> str:
        """The newest PTX ISA version that it takes: "9.5"."""
        major, minor = (int(part) for part in self.version.split(".")[:2])
        return ".".join(map(str, PTX_OF_CUDA[major, minor]))

    def architectures(self) -> tuple[str, ...]:
        """What ``-arch`` takes, as its help lists it: "sm_90", "sm_90a", …"""
        text = subprocess.run([self.ptxas, "--help"], check=True, capture_output=True, text=True).stdout
        return tuple(dict.fromkeys(_NAME.findall(text)))

    def compile(self, target: str, arch: str, out: Path) -> str:
        """PTX of ``.target`` to a cubin for ``arch``; returns ptxas's complaint, "" where it made one."""
        done = subprocess.run(
            [self.ptxas, "-arch", arch, "-o", out, "-"], input=self.ptx(target), capture_output=True, text=True
        )
        if done.returncode == 0:
            return "" if out.stat().st_size else "it ended well and wrote nothing"
        return (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[0]

    def ptx(self, target: str) -> str:
        """The kernel's text for one ``.target``."""
        return _BODY.format(isa=self.isa, target=target).lstrip()


def install(version: str, folder: Path) -> Toolkit:
    """Fetch the tools of one toolkit into ``folder`` by pip, unless they are there."""
    major = int(version.partition(".")[0])
    name = "nvidia-cuda-nvcc" if major >= 13 else f"nvidia-cuda-nvcc-cu{major}"
    place = folder / f"{name}-{version}"
    if not place.is_dir():
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--target", str(place), f"{name}=={version}"], check=True)
    (ptxas,) = place.rglob("bin/ptxas")
    return Toolkit(version, ptxas, next(place.rglob("bin/fatbinary"), None))
