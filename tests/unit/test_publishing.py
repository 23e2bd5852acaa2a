from __future__ import annotations

import dataclasses
import errno
import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from qualify import evidence, matrix
from qualify.cli import main
from qualify.errors import AssayError, ExitCode, RefusedError, UnavailableError, UnverifiedError
from qualify.publishers import PUBLISHERS, pages, publisher
from qualify.publishers.folder import publish
from qualify.publishers.pages import Release
from tests.support.line import NOW, TARGETS, Qualified, axpy, judged, qualified, write_matrix
from tests.support.store import Links, listed, sha256, torn, tree
from tests.support.wheel import write_wheel

SM110, SM121 = "aarch64-sm110", "aarch64-sm121"


def prove(made: Qualified) -> evidence.Evidence:
    folder = next(parent for parent in made.wheel.parents if (parent / "matrix.yaml").exists())
    return evidence.prove(evidence.load(made.path), made.wheel, matrix.load(folder / "matrix.yaml"))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    write_matrix(tmp_path)
    return tmp_path


def proven(work: Path, target: str = "x86_64-sm90", version: str = "0.1.0") -> evidence.Evidence:
    return prove(qualified(work, work / "matrix.yaml", target, version))


@pytest.mark.parametrize("kind", PUBLISHERS)
def test_every_publisher_keeps_the_contract(work: Path, kind: str) -> None:
    """The one that kills it at every step is tests/unit/test_killed.py."""
    publishes, to = publisher(kind).publish, str(work / "to")
    proof = proven(work)
    (first,) = publishes([proof], to, now=NOW)
    (again,) = publishes([proof], to, now=NOW + timedelta(days=1))
    assert (first.new, again.new) == (True, False)
    assert (first.filename, first.sha256, first.target) == (proof.wheel.name, proof.sha256, proof.target)
    other = prove(judged(axpy(work / "w", files={"axpy/x.py": ""}), proof.target, work / "matrix.yaml"))
    with pytest.raises(RefusedError, match="other bytes"):
        publishes([other], to, now=NOW)
    changed = proven(work, version="0.2.0")
    changed.wheel.write_bytes(b"")
    with pytest.raises(RefusedError, match="changed since it was judged"):
        publishes([changed], to, now=NOW)


def test_a_wheel_lies_by_its_hash_and_in_its_targets_index(work: Path) -> None:
    proof = proven(work)
    (published,) = publish([proof], str(work / "to"), now=NOW)
    name = proof.wheel.name
    assert (published.filename, published.target, published.new) == (name, "x86_64-sm90", True)
    assert sorted(tree(work / "to")) == sorted(
        [
            "index.html",
            *(f"{index}simple/{page}" for index in ("", "x86_64-sm90/") for page in ("index.html", "index.json")),
            *(f"{index}simple/axpy/{page}" for index in ("", "x86_64-sm90/") for page in ("index.html", "index.json")),
            *(
                f"files/{proof.sha256[:2]}/{proof.sha256}/{name}{suffix}"
                for suffix in ("", ".metadata", ".x86_64-sm90.evidence.json")
            ),
        ]
    )
    assert torn(work / "to") == []
    assert listed(work / "to", "x86_64-sm90") == listed(work / "to", "") == {name: proof.sha256}
    assert published.index == str(work / "to" / "x86_64-sm90" / "simple")


def test_the_json_page_says_what_pep_691_and_700_ask(work: Path) -> None:
    proof = proven(work)
    publish([proof], str(work / "to"), now=NOW)
    page = json.loads((work / "to/x86_64-sm90/simple/axpy/index.json").read_bytes())
    (file,) = page.pop("files")
    assert page == {"meta": {"api-version": "1.1"}, "name": "axpy", "versions": ["0.1.0"]}
    folder = f"../../../files/{proof.sha256[:2]}/{proof.sha256}"
    metadata = sha256(work / "to/files" / proof.sha256[:2] / proof.sha256 / f"{proof.wheel.name}.metadata")
    assert file == {
        "filename": proof.wheel.name,
        "url": f"{folder}/{proof.wheel.name}",
        "hashes": {"sha256": proof.sha256},
        "size": proof.wheel.stat().st_size,
        "upload-time": "2026-11-30T12:00:00.000000Z",
        "requires-python": ">=3.11",
        "core-metadata": {"sha256": metadata},
        "dist-info-metadata": {"sha256": metadata},
        "_profile": "release",
        "_verdict": "qualified",
        "_targets": ["x86_64-sm90"],
        "_evidence": {"x86_64-sm90": f"{folder}/{proof.wheel.name}.x86_64-sm90.evidence.json"},
    }


def test_the_html_page_says_what_pep_503_and_714_ask(work: Path) -> None:
    proof = proven(work, version="0.1.0+cu130")
    publish([proof], str(work / "to"), now=NOW)
    ((href, text, attributes),) = Links((work / "to/simple/axpy/index.html").read_text()).found
    assert text == proof.wheel.name
    assert "%2B" in href
    assert "+" not in href
    assert href.startswith(f"../../files/{proof.sha256[:2]}/{proof.sha256}/axpy-0.1.0%2Bcu130-")
    assert href.endswith(f"#sha256={proof.sha256}")
    assert attributes["data-requires-python"] == ">=3.11"
    assert attributes["data-core-metadata"] == attributes["data-dist-info-metadata"]


def test_evidence_goes_along_and_still_proves_the_copy(work: Path) -> None:
    proof = proven(work)
    publish([proof], str(work / "to"), now=NOW)
    copy = work / "to/files" / proof.sha256[:2] / proof.sha256 / proof.wheel.name
    document = evidence.load(evidence.path_for(copy, "x86_64-sm90"))
    assert evidence.prove(document, copy, matrix.load(work / "matrix.yaml")).sha256 == proof.sha256


def test_the_same_again_touches_nothing(work: Path) -> None:
    proof = proven(work)
    publish([proof], str(work / "to"), now=NOW)
    before = {path: path.stat().st_mtime_ns for path in (work / "to").rglob("*") if path.is_file()}
    (again,) = publish([proof], str(work / "to"), now=NOW + timedelta(days=1))
    assert not again.new
    assert {path: path.stat().st_mtime_ns for path in (work / "to").rglob("*") if path.is_file()} == before


def test_two_targets_share_a_name_and_each_index_has_its_own_bytes(work: Path) -> None:
    proofs = [proven(work, target) for target in (SM110, SM121)]
    assert proofs[0].wheel.name == proofs[1].wheel.name
    name = proofs[0].wheel.name
    publish(proofs[:1], str(work / "to"), now=NOW)
    assert listed(work / "to", "") == {name: proofs[0].sha256}
    publish(proofs[1:], str(work / "to"), now=NOW)
    assert torn(work / "to") == []
    assert listed(work / "to", SM110) == {name: proofs[0].sha256}
    assert listed(work / "to", SM121) == {name: proofs[1].sha256}
    assert listed(work / "to", "") == {}, "one name, two sets of bytes: left to the targets' own indexes"


def test_one_wheel_for_two_targets_lies_once_and_is_listed_in_both(work: Path) -> None:
    extensions = {"axpy/_C": {"sm_110": ["axpy_kernel"], "sm_121": ["axpy_kernel"]}, "axpy/_host": {}}
    wheel = write_wheel(work, tag="cp311-abi3-manylinux_2_28_aarch64", extensions=extensions)
    for target in (SM110, SM121):
        judged(wheel, target, work / "matrix.yaml")
    documents = [evidence.load(evidence.path_for(wheel, target)) for target in evidence.targets_beside(wheel)]
    proofs = evidence.prove_each(documents, wheel, matrix.load(work / "matrix.yaml"))
    publish(proofs, str(work / "to"), now=NOW)
    assert torn(work / "to") == []
    same = {wheel.name: proofs[0].sha256}
    assert listed(work / "to", SM110) == listed(work / "to", SM121) == listed(work / "to", "") == same
    assert len(list((work / "to").glob("files/*/*/*.whl"))) == 1
    (file,) = json.loads((work / "to/simple/axpy/index.json").read_bytes())["files"]
    assert sorted(file["_evidence"]) == file["_targets"] == [SM110, SM121]
    for link in file["_evidence"].values():
        assert (work / "to/simple/axpy" / link).is_file()


def test_what_is_merged_bears_the_earliest_upload_and_the_lesser_profile() -> None:
    name = "axpy-1-py3-none-any.whl"
    late = Release(name, "a" * 64, 1, "", "0" * 64, "2026-11-30T12:00:01Z", "release", (SM121,))
    early = Release(name, "a" * 64, 1, "", "0" * 64, "2026-11-30T12:00:00Z", "upstream", (SM110,))
    (merged,) = pages.combined([[late], [early]])
    assert merged == Release(name, "a" * 64, 1, "", "0" * 64, early.uploaded, "upstream", (SM110, SM121))


def test_versions_are_listed_in_their_order(work: Path) -> None:
    for version in ("0.10.0", "0.9.0", "0.9.0rc1"):
        publish([proven(work, version=version)], str(work / "to"), now=NOW)
    page = json.loads((work / "to/simple/axpy/index.json").read_bytes())
    assert page["versions"] == ["0.9.0rc1", "0.9.0", "0.10.0"]
    assert [file["filename"].split("-")[1] for file in page["files"]] == page["versions"]


def test_an_index_of_projects_and_a_front_page_lead_to_all(work: Path) -> None:
    publish([proven(work, target) for target in TARGETS], str(work / "to"), now=NOW)
    front = [href for href, _, _ in Links((work / "to/index.html").read_text()).found]
    assert front == [*(f"{target}/simple/" for target in sorted(TARGETS)), "simple/"]
    for index in front:
        assert [href for href, _, _ in Links((work / "to" / index / "index.html").read_text()).found] == ["axpy/"]
        assert json.loads((work / "to" / index / "index.json").read_bytes())["projects"] == [{"name": "axpy"}]


def unchanged(work: Path, proofs: list[evidence.Evidence], kind: type[AssayError] = RefusedError) -> str:
    before = tree(work / "to")
    with pytest.raises(kind) as caught:
        publish(proofs, str(work / "to"), now=NOW)
    assert tree(work / "to") == before
    return str(caught.value)


def test_other_bytes_under_a_taken_name_are_refused(work: Path) -> None:
    proof = proven(work)
    publish([proof], str(work / "to"), now=NOW)
    other = prove(judged(axpy(work / "w", files={"axpy/x.py": "x = 1\n"}), "x86_64-sm90", work / "matrix.yaml"))
    fine = proven(work, version="0.2.0")
    message = unchanged(work, [fine, other])
    assert f"other bytes are published under this name for x86_64-sm90: sha256 {proof.sha256}" in message


def test_two_of_one_name_at_once_are_refused(work: Path) -> None:
    other = prove(judged(axpy(work / "w", files={"axpy/x.py": "x = 1\n"}), "x86_64-sm90", work / "matrix.yaml"))
    (work / "to").mkdir()
    assert "two wheels of one name and different bytes" in unchanged(work, [proven(work), other])


def test_a_wheel_that_changed_after_its_proof_is_refused(work: Path) -> None:
    proof = proven(work)
    proof.wheel.write_bytes(proof.wheel.read_bytes() + b"\0")
    (work / "to").mkdir()
    assert "the file changed since it was judged" in unchanged(work, [proof])


def test_a_damaged_copy_is_mended_by_the_same_publish(work: Path) -> None:
    proof = proven(work)
    publish([proof], str(work / "to"), now=NOW)
    before = tree(work / "to")
    (copy,) = (work / "to").glob("files/*/*/*.whl")
    copy.write_bytes(b"rot")
    assert torn(work / "to")
    publish([proof], str(work / "to"), now=NOW)
    assert tree(work / "to") == before


def test_pages_that_were_lost_are_made_again(work: Path) -> None:
    proofs = [proven(work, target) for target in TARGETS]
    publish(proofs, str(work / "to"), now=NOW)
    before = tree(work / "to")
    for name in before:
        if name.endswith("index.html") or name.startswith("simple/"):
            (work / "to" / name).unlink()
    publish(proofs, str(work / "to"), now=NOW)
    assert tree(work / "to") == before


@pytest.mark.parametrize("page", ["{", "[]", '{"name": "axpy", "files": [{}]}', '{"name": "axpy", "files": 1}'])
def test_an_index_of_someone_else_is_not_written_over(work: Path, page: str) -> None:
    state = work / "to/x86_64-sm90/simple/axpy/index.json"
    state.parent.mkdir(parents=True)
    state.write_text(page)
    assert "not an index page that this tool wrote" in unchanged(work, [proven(work)], UnverifiedError)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("filename", "../../etc/passwd"),
        ("filename", "other-1-py3-none-any.whl"),
        ("hashes", {"sha256": "../x"}),
        ("size", "1"),
        ("core-metadata", True),
        ("_targets", [1]),
    ],
)
def test_a_state_that_was_tampered_with_is_not_believed(work: Path, key: str, value: object) -> None:
    proof = proven(work)
    publish([proof], str(work / "to"), now=NOW)
    state = work / "to/x86_64-sm90/simple/axpy/index.json"
    page = json.loads(state.read_bytes())
    page["files"][0][key] = value
    state.write_text(json.dumps(page))
    assert "not an index page" in unchanged(work, [proven(work, version="0.2.0")], UnverifiedError)


def test_a_link_in_the_folder_leads_no_write_out_of_it(work: Path) -> None:
    (work / "outside").mkdir()
    (work / "to").mkdir()
    (work / "to/files").symlink_to(work / "outside")
    assert "a symbolic link lies on the way" in unchanged(work, [proven(work)])
    assert list((work / "outside").iterdir()) == []


def test_the_folder_itself_may_be_reached_by_a_link(work: Path) -> None:
    (work / "real").mkdir()
    (work / "to").symlink_to(work / "real")
    publish([proven(work)], str(work / "to"), now=NOW)
    assert torn(work / "real") == []


HOSTILE = '>=3.11"><script>alert(1)</script>'


def test_texts_from_a_wheel_are_escaped() -> None:
    release = Release("axpy-1-py3-none-any.whl", "a" * 64, 1, HOSTILE, "b" * 64, "2026", "release", ())
    page = Links(pages.project_html('<b>"axpy', [release], up="../"))
    assert "script" not in page.tags
    assert "b" not in page.tags
    ((_, _, attributes),) = page.found
    assert attributes["data-requires-python"] == HOSTILE
    assert json.loads(pages.project_json("axpy", [release], up="../"))["files"][0]["requires-python"] == HOSTILE
    assert "script" not in Links(pages.root_html(["<script>x</script>"])).tags
    assert "script" not in Links(pages.front_html(["<script>x</script>"])).tags


@pytest.mark.parametrize(
    "name",
    [
        "axpy-1-py3-none-any<b>.whl",
        "äxpy-1-py3-none-any.whl",
        "axpy-1-py3-none-any\n.whl",
        "../axpy-1-py3-none-any.whl",
        ".axpy-1-py3-none-any.whl",
        "axpy-1-py3-none-any.whl.exe",
        "a" * 252 + ".whl",
    ],
)
def test_names_that_no_index_can_list_are_told(name: str) -> None:
    assert pages.SAFE_NAME.fullmatch(name) is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("step", ["open", "write", "fsync", "replace", "mkdir"])
def test_a_failing_disk_leaves_what_was_there(
    work: Path, monkeypatch: pytest.MonkeyPatch, number: int, step: str
) -> None:
    publish([proven(work)], str(work / "to"), now=NOW)
    before = tree(work / "to")
    proof = proven(work, version="0.2.0")
    real = getattr(os, step)

    def failing(first: object, *rest: object, **options: object) -> object:
        writing = step != "open" or (rest and isinstance(rest[0], int) and rest[0] & os.O_CREAT)
        if writing and (isinstance(first, int) or str(work / "to") in str(first)):
            raise OSError(number, os.strerror(number), str(first))
        return real(first, *rest, **options)

    monkeypatch.setattr(os, step, failing)
    with pytest.raises(UnavailableError) as caught:
        publish([proof], str(work / "to"), now=NOW)
    assert os.strerror(number) in str(caught.value)
    assert str(work / "to") in caught.value.where
    monkeypatch.undo()
    assert tree(work / "to") == before
    publish([proof], str(work / "to"), now=NOW)
    assert torn(work / "to") == []
    assert len(listed(work / "to", "")) == 2


def test_a_file_where_the_folder_should_be_is_told(work: Path) -> None:
    (work / "to").write_text("")
    with pytest.raises(UnavailableError, match=r"Not a directory|File exists"):
        publish([proven(work)], str(work / "to"), now=NOW)


def test_without_a_destination_the_folder_of_this_site_is_taken(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = str(qualified(work, work / "matrix.yaml", "x86_64-sm90", "0.1.0").wheel)
    monkeypatch.setenv("WHEEL_ASSAY_MATRIX", str(work / "matrix.yaml"))
    assert main(["publish", wheel]) == ExitCode.USAGE
    assert "nowhere to publish to" in capsys.readouterr().err
    (work / "matrix.local.yaml").write_text("version: 1\nfolders: {index: store}\n")
    assert main(["publish", wheel]) == ExitCode.OK
    assert listed(work / "store", "")


def test_what_is_merged_bears_the_lesser_verdict_and_an_older_page_has_none() -> None:
    release = Release("axpy-1-py3-none-any.whl", "0" * 64, 1, "", "1" * 64, "2026-11-30T12:00:00Z", "release", (SM110,))
    overridden = dataclasses.replace(release, verdict="overridden", targets=(SM121,))
    (both,) = pages.combined([[release], [overridden]])
    assert (both.verdict, both.targets) == ("overridden", (SM110, SM121))
    page = json.loads(pages.project_json("axpy", [overridden], up=""))
    assert pages.read_project(json.dumps(page).encode(), "x") == [overridden]
    del page["files"][0]["_verdict"]
    assert pages.read_project(json.dumps(page).encode(), "x")[0].verdict == "qualified"
    page["files"][0]["_verdict"] = "fine"
    with pytest.raises(UnverifiedError, match="verdict 'fine'"):
        pages.read_project(json.dumps(page).encode(), "x")
