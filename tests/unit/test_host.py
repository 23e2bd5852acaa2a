"""What engines take over from this host."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from builders.host import Network, network_of, process_is_alive, process_mark, work_folder
from qualify.matrix.local import LocalSettings
from qualify.packageindex import IndexSettings


def site(**changes: Any) -> LocalSettings:
    return LocalSettings.model_validate(changes)


def test_pips_indexes_are_taken_over_and_folders_are_not() -> None:
    index = IndexSettings(
        index_urls=("https://mirror.example/simple", "file:///opt/simple", "https://more.example/simple"),
        find_links=("/srv/wheels", "https://links.example/"),
        trusted_hosts=("mirror.example",),
        timeout=180.0,
    )
    network = Network(b"PEM", index, {"HTTPS_PROXY": "http://proxy:1"})
    assert network.files_inside() == {
        "/etc/wheel-assay/ca.pem": b"PEM",
        "/etc/pip.conf": b"[global]\nindex-url = https://mirror.example/simple\n"
        b"extra-index-url = https://more.example/simple\nfind-links = https://links.example/\n"
        b"trusted-host = mirror.example\ntimeout = 180\n",
    }
    inside = network.environment_inside()
    assert inside["PIP_CERT"] == inside["SSL_CERT_FILE"] == "/etc/wheel-assay/ca.pem"
    assert inside["HTTPS_PROXY"] == "http://proxy:1"


def test_where_the_first_index_is_a_folder_pips_default_stays_the_first() -> None:
    index = IndexSettings(index_urls=("file:///opt/simple", "https://more.example/simple"))
    assert Network(index=index).files_inside() == {
        "/etc/pip.conf": b"[global]\nextra-index-url = https://more.example/simple\n"
    }
    assert Network().files_inside() == Network().environment_inside() == {}


def test_the_hosts_bundle_is_the_one_that_pip_is_told(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"own")
    assert network_of(environ={"PIP_CERT": str(tmp_path / "ca.pem")}).authorities == b"own"
    assert network_of(environ={"PIP_CERT": str(tmp_path / "none.pem")}).authorities != b"own"


def test_a_sites_certificates_join_the_others(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"own")
    (tmp_path / "site.pem").write_bytes(b"site")
    network = network_of(site(ca_bundle=str(tmp_path / "site.pem")), {"PIP_CERT": str(tmp_path / "ca.pem")})
    assert network.authorities == b"own\nsite"
    here = network.environment_here({}, tmp_path)
    assert Path(here["PIP_CERT"]).read_bytes() == b"own\nsite"


def test_a_sites_mirror_is_asked_first(tmp_path: Path) -> None:
    mirrors = {"index_url": "https://site.example/simple", "find_links": ["/srv/wheels"]}
    network = network_of(site(mirrors=mirrors), {})
    assert b"index-url = https://site.example/simple\n" in network.files_inside()["/etc/pip.conf"]
    assert b"/srv/wheels" not in network.files_inside()["/etc/pip.conf"]
    here = network.environment_here({}, tmp_path)
    assert here["PIP_INDEX_URL"] == "https://site.example/simple"
    assert here["PIP_FIND_LINKS"].split()[0] == "/srv/wheels"


def test_on_this_host_a_step_keeps_what_reaches_the_network_and_no_more(tmp_path: Path) -> None:
    environ = {"PIP_INDEX_URL": "i", "SSL_CERT_FILE": "c", "no_proxy": "n", "PYTHONPATH": "x", "HTTPS_PROXY": ""}
    kept = network_of(site(), environ).environment_here(environ, tmp_path)
    assert kept == {"PIP_INDEX_URL": "i", "SSL_CERT_FILE": "c", "no_proxy": "n"}
    assert list(tmp_path.iterdir()) == []


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
