"""The host that serves: FlashInfer's and Triton's tools, with an interpreter, scripts and, where it is there, a GPU."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from builders.cli import main
from builders.preflight_items import Item, Status
from builders.preflight_runtime import judge_runtime
from builders.preflight_triton import NAME, assembles, judge_triton
from tests.unit.builders_support import make_tool, sdist_matrix, write_tree

# A ptxas that knows the architectures of its folder's list, and PTX up to 8.8, as that of CUDA 12.9 does.
PTXAS = """
for word in "$@"; do
  case "$word" in
    --version) echo "Cuda compilation tools, release 12.9, V12.9.86"; exit 0;;
    --gpu-name=*) gpu="${word#--gpu-name=}";;
    *.ptx) source="$word";;
  esac
done
known=" KNOWN "
[ "${known#* $gpu }" != "$known" ] || { echo "ptxas: Value '$gpu' is not defined for option 'gpu-name'"; exit 255; }
grep -q "version 8.8" "$source" || { echo "ptxas $source, line 1; fatal : Unsupported .version"; exit 255; }
"""
COMPILER = """
import os
class Tool:
    def __init__(self, name):
        self.path = os.environ.get("TRITON_" + name.upper().replace("-", "_") + "_PATH") or os.path.join(
            os.path.dirname(__file__), "bin", name)
def get_ptxas(arch):
    return Tool("ptxas-blackwell" if arch >= 100 else "ptxas")
def sm_arch_from_capability(capability):
    return "sm_%d%s" % (capability, "a" if capability >= 90 else "")
"""
SMI = """
case "$*" in
  *--query-gpu*) printf 'NVIDIA GB10, 12.1, 580.1\\n%s' "MORE";;
  *) echo "| NVIDIA-SMI 580.1   Driver Version: 580.1   CUDA Version: 13.0  |";;
esac
"""


def ptxas(folder: Path, known: str, name: str = "ptxas") -> Path:
    return make_tool(folder, name, PTXAS.replace("KNOWN", known))


def with_triton(folder: Path, compiler: str | None = COMPILER, **known: str) -> str:
    """An interpreter whose triton has this compiler (None: it can't be imported) and brings these ptxas."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    site = subprocess.check_output([str(python), "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"])
    triton = Path(site.decode().strip()) / "triton"
    torn = "raise ImportError('libtriton.so: no such file')\n"
    write_tree(
        triton,
        {
            "__init__.py": torn if compiler is None else "",
            "backends/__init__.py": "",
            "backends/nvidia/__init__.py": "",
            "backends/nvidia/compiler.py": compiler or "",
            "../triton-3.6.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: triton\nVersion: 3.6.0\n",
        },
    )
    for name, architectures in known.items():
        ptxas(triton / "backends" / "nvidia" / "bin", architectures, name.replace("_", "-"))
    return str(python)


def triton_of(python: str, capability: str) -> Item:
    (item,) = judge_triton(python, capability)
    assert item.name == NAME
    return item


def test_the_ptxas_that_triton_takes_is_the_one_that_counts(tmp_path: Path) -> None:
    python = with_triton(tmp_path / "venv", ptxas="sm_90a sm_120a", ptxas_blackwell="sm_121a")
    hopper = triton_of(python, "9.0")
    assert (hopper.status, hopper.version) == (Status.FOUND, "triton 3.6.0, knows sm_90a")
    assert hopper.path.endswith("/triton/backends/nvidia/bin/ptxas")
    assert triton_of(python, "12.1").path.endswith("/ptxas-blackwell")
    # The other ptxas knows it, and Triton doesn't call that one.
    wrong = triton_of(python, "12.0")
    assert wrong.status is Status.WRONG_VERSION
    assert "Value 'sm_120a' is not defined for option 'gpu-name'" in wrong.action
    assert "set TRITON_PTXAS_BLACKWELL_PATH to the ptxas of a toolkit that knows it" in wrong.action


def test_a_ptxas_that_a_variable_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = with_triton(tmp_path / "venv", ptxas="sm_80", ptxas_blackwell="sm_100a")
    assert triton_of(python, "9.0").status is Status.WRONG_VERSION
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(ptxas(tmp_path / "cuda", "sm_90a")))
    assert triton_of(python, "9.0").path == f"{tmp_path}/cuda/ptxas"


def test_a_triton_that_cannot_be_imported_is_looked_at_all_the_same(tmp_path: Path) -> None:
    python = with_triton(tmp_path / "venv", None, ptxas="sm_90a", ptxas_blackwell="sm_121a")
    assert triton_of(python, "12.1").path.endswith("/ptxas-blackwell")
    assert triton_of(python, "9.0").status is Status.FOUND
    empty = triton_of(with_triton(tmp_path / "empty", None), "9.0")
    assert empty.status is Status.ABSENT
    assert "ImportError: libtriton.so: no such file" in empty.action


@pytest.mark.parametrize(
    "older",
    [
        "def get_ptxas():\n    import os\n    return (os.path.dirname(__file__) + '/bin/ptxas', '12.9')\n",
        "def _path_to_binary(name):\n    import os\n    return os.path.dirname(__file__) + '/bin/' + name, '12.9'\n",
    ],
)
def test_tritons_of_older_forms(tmp_path: Path, older: str) -> None:
    python = with_triton(tmp_path / "venv", older, ptxas="sm_121a")
    assert triton_of(python, "12.1").version == "triton 3.6.0, knows sm_121a"


def test_an_interpreter_without_triton_or_none_at_all(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    absent = triton_of(f"{tmp_path}/bare/bin/python", "12.1")
    assert (absent.status, absent.refuses) == (Status.ABSENT, False)
    gone = triton_of(f"{tmp_path}/nobody", "12.1")
    assert (gone.status, gone.refuses) == (Status.NOT_LOOKED_AT, True)
    assert triton_of(sys.executable, "").status is Status.NOT_LOOKED_AT


@pytest.mark.parametrize(
    ("more", "capability", "oldest", "expected"),
    [
        ("", "", "", {"GPU NVIDIA GB10": Status.FOUND, "driver": Status.FOUND}),
        ("", "12.1", "13.0", {"GPU NVIDIA GB10": Status.FOUND, "driver": Status.FOUND}),
        ("", "12.1", "13.2", {"GPU NVIDIA GB10": Status.FOUND, "driver": Status.WRONG_VERSION}),
        ("", "9.0", "", {"GPU NVIDIA GB10": Status.UNMET, "driver": Status.FOUND}),
    ],
)
def test_the_gpu_and_its_driver(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: str,
    capability: str,
    oldest: str,
    expected: dict[str, Status],
) -> None:
    make_tool(tmp_path / "bin", "nvidia-smi", SMI.replace("MORE", more))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    items = {item.name: item for item in judge_runtime(sys.executable, capability, (), oldest_cuda=oldest)}
    assert {name: items[name].status for name in expected} == expected


def test_a_second_gpu_of_another_kind_does_not_refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tool(tmp_path / "bin", "nvidia-smi", SMI.replace("MORE", "NVIDIA T400, 7.5, 580.1"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    items = {item.name: item for item in judge_runtime(sys.executable, "12.1", ())}
    assert (items["GPU NVIDIA T400"].status, items["GPU NVIDIA T400"].refuses) == (Status.UNMET, False)
    items = {item.name: item for item in judge_runtime(sys.executable, "9.0", ())}
    assert items["GPU NVIDIA T400"].refuses


def test_tools_of_the_host_that_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ninja in an environment that is not on PATH, an nvcc that is older than the GPU, and no C compiler."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    make_tool(tmp_path / "venv" / "bin", "ninja", "echo 1.12.1")
    lists = 'case "$1" in --list-gpu-arch) echo compute_90;; --list-gpu-code) echo sm_90;;'
    make_tool(tmp_path / "cuda" / "bin", "nvcc", f'{lists} *) echo "release 12.4, V12.4.131";; esac')
    monkeypatch.setenv("PATH", f"{tmp_path}/cuda/bin")
    monkeypatch.setenv("CC", f"{tmp_path}/nobody-cc")
    items = {item.name: item for item in judge_runtime(f"{tmp_path}/venv/bin/python", "12.1", ())}
    assert items["ninja"].status is Status.NOT_ON_PATH
    assert items["ninja"].action == f'export PATH="{tmp_path}/venv/bin:$PATH"'
    assert items["nvcc"].refuses
    assert "does not know sm_121; it knows compute_90, sm_90" in items["nvcc"].action
    assert items["cc"].status is Status.ABSENT
    assert f"CC names {tmp_path}/nobody-cc, which is not there" in items["cc"].action
    assert items["GPU"].status is Status.NOT_LOOKED_AT


def test_the_command_prints_the_list_and_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = sdist_matrix(tmp_path)
    python = with_triton(tmp_path / "venv", ptxas="sm_80")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    code = main(["doctor", "x86_64-sm90", "--runtime", "--python", python, "--matrix", str(loaded.path), "--json"])
    items = {item["name"]: item for item in json.loads(capsys.readouterr().out)["items"]}
    assert code == 8
    assert items[NAME]["status"] == "wrong version"
    assert items[NAME]["refuses"] is True


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas on PATH")
def test_a_real_ptxas_is_asked_by_a_real_kernel() -> None:
    found = shutil.which("ptxas")
    assert found is not None
    assert assembles(found, "sm_90a") == ""
    assert "sm_77" in assembles(found, "sm_77")
