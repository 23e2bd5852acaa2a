"""Print the matrix of mutants and near misses; exit code 1 where one is not as it should be."""

from __future__ import annotations

import sys

from tests.mutants import MUTANTS, NEAR_MISSES
from tests.mutants.matrix import judged, one_sided, render

if __name__ == "__main__":
    rows = [judged(case) for case in (*MUTANTS, *NEAR_MISSES)]
    print("\n".join(render(rows)))
    sys.exit(1 if one_sided(rows) or not all(each.good for each in rows) else 0)
