"""Look at a published folder as an installer does, and say what is torn in it."""

from __future__ import annotations

import hashlib
import json
import posixpath
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Links(HTMLParser):
    """The links of a page: (href, text, attributes)."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str, dict[str, str]]] = []
        self._open: dict[str, str] | None = None
        self.tags: set[str] = set()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "a":
            self._open = {name: value or "" for name, value in attrs}

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self.found.append((self._open["href"], data, self._open))
            self._open = None


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def pages(root: Path) -> list[Path]:
    """The project pages of every index in the folder."""
    return sorted({path.parent for path in root.glob("**/simple/*/index.*")})


def listed(root: Path, index: str, project: str = "axpy") -> dict[str, str]:
    """File name -> sha256 as the HTML page of ``index`` ("" is the combined one) says."""
    page = root / index / "simple" / project / "index.html"
    links = Links(page.read_text()).found
    return {text: urlsplit(href).fragment.removeprefix("sha256=") for href, text, _ in links}


def torn(root: Path) -> list[str]:
    """Everything that would make an installer fail or take other bytes; empty where the folder is whole."""
    wrong = []
    for page in pages(root):
        rows: list[tuple[str, str, str, str]] = []
        if (page / "index.json").exists():
            files = json.loads((page / "index.json").read_bytes())["files"]
            rows += [(f["url"], f["filename"], f["hashes"]["sha256"], f["core-metadata"]["sha256"]) for f in files]
        if (page / "index.html").exists():
            text = (page / "index.html").read_text()
            if not text.endswith("</html>\n"):
                wrong.append(f"{page}: half a page")
            for href, name, attributes in Links(text).found:
                parts = urlsplit(href)
                metadata = attributes["data-core-metadata"].removeprefix("sha256=")
                rows.append((parts.path, name, parts.fragment.removeprefix("sha256="), metadata))
        for href, name, digest, metadata in rows:
            path = Path(posixpath.normpath(page / unquote(href)))
            if path.name != name or not path.is_relative_to(root):
                wrong.append(f"{page}: {href} leads to {path}")
            elif not path.is_file() or sha256(path) != digest:
                wrong.append(f"{page}: {name} is not there or holds other bytes")
            elif sha256(path.with_name(f"{name}.metadata")) != metadata:
                wrong.append(f"{page}: metadata of {name}")
    half = [path for path in root.glob("files/*/*/*.whl") if sha256(path) != path.parent.name]
    wrong += [f"{path} holds other bytes than its folder says" for path in half]
    return wrong


def tree(root: Path) -> dict[str, bytes]:
    """Every file of the folder, by its relative path."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
