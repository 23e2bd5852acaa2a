"""What engines take over from this host."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from builders.host import (
    Network,
    host_network_environment,
    network_of_host,
    pip_settings,
    process_is_alive,
    process_mark,
    work_folder,
)


def test_pips_indexes_are_taken_over_and_folders_are_not() -> None:
    listing = """\
:env:.default-timeout='180'
:env:.index-url='https://mirror.example/simple'
global.cert='/etc/ssl/ca.crt'
global.extra-index-url='file:///opt/simple https://more.example/simple'
global.find-links='/opt/wheels'
global.index-url='https://other.example/simple'
install.trusted-host='mirror.example\\nmore.example'
"""
    assert pip_settings(listing) == {
        "timeout": "180",
        "index-url": "https://mirror.example/simple",
        "extra-index-url": "https://more.example/simple",
        "trusted-host": "mirror.example more.example",
    }
    assert pip_settings("") == {}
    assert pip_settings("global.extra-index-url='file:///opt/simple'") == {}


def test_the_network_inside_a_container() -> None:
    network = Network(b"PEM", {"index-url": "https://mirror.example/simple"}, {"HTTPS_PROXY": "http://proxy:1"})
    assert network.files_inside() == {
        "/etc/wheel-assay/ca.pem": b"PEM",
        "/etc/pip.conf": b"[global]\nindex-url = https://mirror.example/simple\n",
    }
    inside = network.environment_inside()
    assert inside["PIP_CERT"] == inside["SSL_CERT_FILE"] == "/etc/wheel-assay/ca.pem"
    assert inside["HTTPS_PROXY"] == "http://proxy:1"
    assert Network().files_inside() == Network().environment_inside() == {}


def test_the_hosts_bundle_is_the_one_that_pip_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ca.pem").write_bytes(b"own")
    monkeypatch.setenv("PIP_CERT", str(tmp_path / "ca.pem"))
    assert network_of_host().authorities == b"own"
    monkeypatch.setenv("PIP_CERT", str(tmp_path / "none.pem"))
    assert network_of_host().authorities != b"own"


def test_on_this_host_a_step_keeps_what_reaches_the_network_and_no_more() -> None:
    environ = {"PIP_INDEX_URL": "i", "SSL_CERT_FILE": "c", "no_proxy": "n", "PYTHONPATH": "x", "HTTPS_PROXY": ""}
    assert host_network_environment(environ) == {"PIP_INDEX_URL": "i", "SSL_CERT_FILE": "c", "no_proxy": "n"}


def test_a_process_is_known_by_more_than_its_number() -> None:
    mark = process_mark()
    assert process_is_alive(mark)
    host, pid, start = mark.rsplit("/", 2)
    assert int(pid) == os.getpid()
    assert not process_is_alive(f"{host}/{pid}/{int(start) + 1}")
    ended = subprocess.Popen([sys.executable, "-c", "pass"])
    mark = process_mark(ended.pid)
    ended.wait()
    assert not process_is_alive(mark)


def test_a_work_folder_goes_with_its_work_and_what_the_dead_left_goes_with_the_next(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", "pass"])
    left = tmp_path / "work" / f"{process_mark(ended.pid).replace('/', '~')}~1234"
    ended.wait()
    (left / "deep").mkdir(parents=True)
    (tmp_path / "work" / "of~another~1~1~1").mkdir()
    with work_folder(tmp_path) as folder:
        (folder / "file").write_text("x")
        with work_folder(tmp_path) as other:
            assert other != folder
        assert folder.exists()
        assert not left.exists()
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["of~another~1~1~1"]


def test_a_work_folder_goes_when_the_work_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), work_folder(tmp_path):
        raise ZeroDivisionError
    assert list((tmp_path / "work").iterdir()) == []
