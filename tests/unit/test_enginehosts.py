"""Which engine host a target is bound to, and which addresses are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.enginehosts import HERE, address_of, checked, host_for
from qualify.errors import ConfigurationError, UsageError
from qualify.matrix import LoadedMatrix, load
from qualify.matrix.local import EngineHost
from tests.unit.builders_support import sdist_matrix

TARGET = "x86_64-sm90"


def with_engines(folder: Path, text: str, *, bound: str = "") -> LoadedMatrix:
    path = sdist_matrix(folder).path
    if bound:
        written = path.read_text()
        path.write_text(written.replace("machine: x86_64", f"machine: x86_64\n    engine_host: {bound}", 1))
        assert bound in path.read_text()
    path.with_name("matrix.local.yaml").write_text(f"version: 1\n{text}\n")
    return load(path)


ENGINES = "engines: {one: {url: 'ssh://builder@one'}, two: {context: two}}"


def test_a_target_that_names_no_host_is_built_by_the_engine_that_answers_here(tmp_path: Path) -> None:
    assert host_for(with_engines(tmp_path, ENGINES), TARGET) == (HERE, None)


def test_what_is_asked_for_wins_over_the_site_and_the_site_over_the_matrix(tmp_path: Path) -> None:
    loaded = with_engines(tmp_path, ENGINES, bound="two")
    assert host_for(loaded, TARGET) == ("two", EngineHost(context="two"))
    loaded = with_engines(tmp_path, f"{ENGINES}\nengine_hosts: {{{TARGET}: one}}", bound="two")
    assert host_for(loaded, TARGET)[0] == "one"
    assert host_for(loaded, TARGET, "two")[0] == "two"
    assert host_for(loaded, TARGET, HERE) == (HERE, None)


def test_a_host_that_nobody_names_is_refused_where_it_was_asked_for(tmp_path: Path) -> None:
    loaded = with_engines(tmp_path, ENGINES, bound="three")
    with pytest.raises(ConfigurationError, match="no engine host three") as bound:
        host_for(loaded, TARGET)
    assert bound.value.where == f"target {TARGET}"
    assert bound.value.expected == "one of here, one, two"
    with pytest.raises(UsageError, match="no engine host four") as asked:
        host_for(loaded, TARGET, "four")
    assert asked.value.where == "--engine-host"
    assert not isinstance(asked.value, ConfigurationError)
    loaded = with_engines(tmp_path, f"{ENGINES}\nengine_hosts: {{{TARGET}: five}}")
    with pytest.raises(ConfigurationError) as site:
        host_for(loaded, TARGET)
    assert site.value.where == "matrix.local.yaml: engine_hosts"


@pytest.mark.parametrize(
    ("host", "said"),
    [
        (EngineHost(), "neither a url nor a context"),
        (EngineHost(url="ssh://a", context="b"), "a url and a context"),
        (EngineHost(url="builder.example"), "no engine's address"),
        (EngineHost(url="http://builder.example:2375"), "no engine's address"),
        (EngineHost(url="ssh://"), "no engine's address"),
        (EngineHost(url="unix://"), "no engine's address"),
        (EngineHost(url="tcp://builder.example:port"), "no engine's address"),
        (EngineHost(url="tcp://builder.example:2375"), "without TLS"),
    ],
)
def test_an_entry_that_is_no_safe_address_is_refused(host: EngineHost, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        checked("one", host)
    assert said in caught.value.what
    assert caught.value.where == "matrix.local.yaml: engines.one"


@pytest.mark.parametrize(
    "host",
    [
        EngineHost(url="ssh://root@builder.example:2222"),
        EngineHost(url="tcp://builder.example:2376", tls="/certificates"),
        EngineHost(url="tcp://127.0.0.1:2375"),  # the end of a tunnel
        EngineHost(url="tcp://[::1]:2375"),
        EngineHost(url="unix:///run/other.sock"),
        EngineHost(context="builder"),
    ],
)
def test_an_address_that_is_one_is_taken_as_it_is(host: EngineHost) -> None:
    assert checked("one", host) is host


def test_no_entry_takes_the_name_of_the_engine_that_answers_here() -> None:
    with pytest.raises(ConfigurationError, match="answers here anyway"):
        checked(HERE, EngineHost(url="ssh://a"))


def test_two_names_of_one_address_are_known_as_one() -> None:
    assert address_of(EngineHost(url="ssh://a/")) == address_of(EngineHost(url="ssh://a", jobs=3))
    assert address_of(EngineHost(context="a")) != address_of(EngineHost(url="ssh://a"))
    assert address_of(None, {"DOCKER_HOST": "ssh://a"}) == address_of(EngineHost(url="ssh://a"))
    assert address_of(None, {}) == address_of(EngineHost(url="unix:///var/run/docker.sock"))
