"""Write qualify/data/abi3.json anew from the installed abi3info.

    python tools/refresh_abi3.py

abi3info (PyPI) is CPython's own `Misc/stable_abi.toml` as Python values: each function and data object of the stable
ABI with the version that added it, and the condition under which an interpreter has it.  Copied are the names, the
versions and the conditions, stamped with abi3info's version.  Layout: one symbol a line, sorted, so that a refresh
reads well as a diff.
"""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "qualify" / "data" / "abi3.json"


def installed() -> tuple[str, dict[str, list[str]]]:
    """abi3info's version, and symbol -> [version that added it, "function" or "data", condition or ""].

    :raises SystemExit: abi3info is not installed.
    """
    try:
        from abi3info import DATAS, FUNCTIONS

        version = metadata.version("abi3info")
    except ImportError as error:
        raise SystemExit(f"abi3info is not here: {error}; install the group `tests`") from error
    rows: dict[str, list[str]] = {}
    for kind, symbols in (("function", FUNCTIONS), ("data", DATAS)):
        for symbol, entry in symbols.items():
            rows[symbol.name] = [str(entry.added), kind, entry.ifdef.name if entry.ifdef is not None else ""]
    return version, dict(sorted(rows.items()))


def render(version: str, rows: dict[str, list[str]]) -> str:
    """The text of the data file."""
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    return f'{{\n "abi3info": {json.dumps(version)},\n "symbols": {{\n{lines}\n }}\n}}\n'


def main() -> None:
    version, rows = installed()
    text = render(version, rows)
    same = TARGET.is_file() and TARGET.read_text(encoding="utf-8") == text
    TARGET.write_text(text, encoding="utf-8")
    sys.stderr.write(
        f"{TARGET.name}: abi3info {version}, {len(rows)} symbols, {'as it was' if same else 'written anew'}\n"
    )


if __name__ == "__main__":
    main()
