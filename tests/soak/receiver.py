"""A slow receiver of webhooks as a process: most answers take a while, some very long, some are refusals."""

import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

USUAL_S, LONG_S = 0.05, 2.0
LONG_EVERY, REFUSED_EVERY = 400, 1000


class _Receiver(BaseHTTPRequestHandler):
    numbers = count(1)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        number = next(self.numbers)
        time.sleep(LONG_S if number % LONG_EVERY == 0 else USUAL_S)
        self.send_response(503 if number % REFUSED_EVERY == 0 else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet."""


def main() -> None:
    """The port is the only argument."""
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Receiver)
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    main()
