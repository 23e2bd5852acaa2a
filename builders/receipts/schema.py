"""``python -m builders.receipts.schema FOLDER``: the JSON schema of a receipt."""

from __future__ import annotations

import sys
from pathlib import Path

from builders.receipts.model import Receipt
from qualify.files import write_atomic
from qualify.matrix.schema import model_schema_text

NAME = "receipt.schema.json"


def main(folder: Path) -> None:
    """Write the schema into a folder."""
    write_atomic(folder / NAME, model_schema_text(Receipt, "receipt of a wheel-assay build"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
