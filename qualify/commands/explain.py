"""``qualify explain``: what a check looks at, why, and how to mend what it finds."""

from __future__ import annotations

import argparse
import json
import sys

from qualify.errors import ExitCode

HELP = "say what a check looks at, why, and how to mend what it finds"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "code", nargs="?", default="", help="a code (DEV001), its beginning (DEV) or a slug; none: the list"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="the whole catalogue, as docs/checks.md holds it")
    form.add_argument("--json", action="store_true", help="one JSON object, of all checks or of those that are named")


def run(arguments: argparse.Namespace) -> ExitCode:
    from qualify.checks import CHECKS, find
    from qualify.checks.catalogue import entry, markdown, to_json

    chosen = find(arguments.code, CHECKS) if arguments.code else CHECKS
    if arguments.markdown:
        sys.stdout.write(markdown(CHECKS))
    elif arguments.json:
        sys.stdout.write(json.dumps(to_json(chosen), indent=2) + "\n")
    elif arguments.code:
        sys.stdout.write("\n".join(map(entry, chosen)))
    else:
        width = max(len(each.slug) for each in CHECKS)
        for each in CHECKS:
            sys.stdout.write(f"{each.code}  {each.slug:<{width}}  {each.summary}\n")
    return ExitCode.OK
