"""A shared compiler cache: as much of a Redis server as ccache asks of one, with the standard library alone.

As a program it listens on the port that its argument names, and prints a line for each command.
"""

from __future__ import annotations

import socketserver
import sys
from typing import ClassVar


class Handler(socketserver.StreamRequestHandler):
    kept: ClassVar[dict[bytes, bytes]] = {}

    def handle(self) -> None:
        while (head := self.rfile.readline()).startswith(b"*"):
            words = []
            for _ in range(int(head[1:])):
                size = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(size))
                self.rfile.read(2)
            print(words[0].decode().upper(), flush=True)
            self.wfile.write(self.answer(words))

    def answer(self, words: list[bytes]) -> bytes:
        name = words[0].upper()
        if name == b"GET":
            value = self.kept.get(words[1])
            return b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value), value)
        if name == b"EXISTS":
            return b":%d\r\n" % (words[1] in self.kept)
        if name == b"SET":
            self.kept[words[1]] = words[2]
        if name == b"DEL":
            return b":%d\r\n" % (self.kept.pop(words[1], None) is not None)
        return b"+PONG\r\n" if name == b"PING" else b"+OK\r\n"


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    with Server(("", int(sys.argv[1])), Handler) as server:
        server.serve_forever()
