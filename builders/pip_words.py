"""What pip says when the package index does not answer: in its output and in its log, in one place."""

from __future__ import annotations

import re

# Of pip 23 to 26: what it prints as it tries again, or as it gives up on a file that it was fetching.
INDEX_IS_SILENT = (
    *("Temporary failure in name resolution", "Name or service not known", "Failed to resolve", "NameResolutionError"),
    *("NewConnectionError", "Max retries exceeded", "connection broken by", "Connection aborted"),
    *("Connection refused", "Connection reset by peer", "Network is unreachable", "No route to host"),
    *("RemoteDisconnected", "IncompleteRead", "ProtocolError", "ProxyError"),
    *("Read timed out", "ReadTimeoutError", "ConnectTimeoutError"),
    *("CERTIFICATE_", "SSLError"),
)
# Of a project's page pip says in its log alone that it can't be had, whatever the reason.  That the index answers with
# a 404 is said in the same words, and is an answer.
PAGE_NOT_HAD = "Could not fetch URL "
_PAGE_NOT_HAD = re.compile(PAGE_NOT_HAD + r"[^\n ]+: (?!4[0-9][0-9] Client Error)")


def index_is_silent(said: str) -> bool:
    """Whether pip's words, or those of its log, are of a network or an index that fails, not of what was asked for."""
    return any(words in said for words in INDEX_IS_SILENT) or _PAGE_NOT_HAD.search(said) is not None
