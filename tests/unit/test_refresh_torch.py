"""How the tables of torch's stable interface and of the host's libraries are made."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from qualify.linking.tables import host_libraries, release_of, stable_functions
from tools import refresh_hostlibs, refresh_torch_stable
from tools.refresh_torch_stable import RemoteFile, combine, declarations

HEADER = """
#ifndef SHIM  // torch_in_a_comment(
#define SHIM torch_in_a_macro()
/* AOTI_TORCH_EXPORT int torch_commented_out(); */
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_plain(int32_t x);
using torch_alias = int; int torch_not_exported(int);
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_10_0
#ifdef USE_CUDA
AOTI_TORCH_EXPORT AOTITorchError
torch_inner(void (*callback)(void*), int32_t device);
#endif // USE_CUDA
AOTI_TORCH_EXPORT const char* torch_after_inner();
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_9_0
AOTI_TORCH_EXPORT void torch_nested();
#endif
#endif
AOTI_TORCH_EXPORT void torch_last();
#endif
"""


def test_a_function_belongs_to_the_guard_around_it() -> None:
    assert declarations(HEADER) == {
        "aoti_torch_plain": "",
        "torch_inner": "2.10.0",
        "torch_after_inner": "2.10.0",
        "torch_nested": "2.10.0",
        "torch_last": "",
    }


def test_a_function_belongs_to_the_first_release_that_declares_it_unless_a_guard_says_more() -> None:
    found = combine({"2.10.0": {"b": "", "a": ""}, "2.9.0": {"a": ""}, "2.11.0": {"a": "", "b": "2.11.0", "c": ""}})
    assert found == {"a": "2.9.0", "b": "2.11.0", "c": "2.11.0"}


def test_a_file_of_the_index_is_read_by_ranges() -> None:
    data = bytes(range(256)) * 40
    asked: list[str] = []

    def get(url: str, headers: dict[str, str]) -> SimpleNamespace:
        asked.append(headers["Range"])
        start, end = map(int, headers["Range"].removeprefix("bytes=").split("-"))
        return SimpleNamespace(status_code=206, content=data[start : end + 1])

    remote = RemoteFile(SimpleNamespace(get=get), "u", len(data))
    with io.BufferedReader(remote, 1000) as stream:
        stream.seek(-10, io.SEEK_END)
        assert stream.read() == data[-10:]
        stream.seek(300)
        assert stream.read(20) == data[300:320]
    assert remote.fetched < 1100
    assert asked


def test_an_index_without_ranges_is_said() -> None:
    remote = RemoteFile(SimpleNamespace(get=lambda url, headers: SimpleNamespace(status_code=200)), "u", 10)
    with pytest.raises(SystemExit, match="200"):
        remote.read(4)


def test_the_kept_table_is_in_order_and_names_its_sources() -> None:
    kept = json.loads(refresh_torch_stable.TARGET.read_text())
    assert list(kept["functions"]) == sorted(kept["functions"], key=release_of)
    assert set(kept["functions"]) <= set(kept["sources"])
    assert len(stable_functions()) == sum(len(names.split(" ")) for names in kept["functions"].values())


def test_the_host_table_names_its_systems_and_each_name_once_for_a_library() -> None:
    kept = json.loads(refresh_hostlibs.TARGET.read_text())
    assert all("glibc" in system for system in kept["systems"])
    for versions in kept["libraries"].values():
        names = [name for row in versions.values() for name in row.split(" ")]
        assert len(names) == len(set(names))
    assert "GLIBC_PRIVATE" not in kept["libraries"]["libc.so.6"]


def test_this_hosts_own_c_library_is_in_the_table() -> None:
    libraries = [path for path in map(Path, ("/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6")) if path.exists()]
    for path in libraries[:1]:
        found = refresh_hostlibs.exports(path)
        common = {name for name in found if name in host_libraries()}
        assert len(common) > 0.9 * len(found)
    assert dict(host_libraries()["sinf"])["libm.so.6"].startswith("GLIBC_2.")
