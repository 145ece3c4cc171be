"""A webhook receiver that answers at once, until it is told to hang."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class HangingReceiver:
    """In threads of its own. While it hangs, requests are taken and not answered."""

    def __init__(self) -> None:
        self._answering = threading.Event()
        self._answering.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/events"

    def hang(self) -> None:
        self._answering.clear()

    def answer(self) -> None:
        self._answering.set()

    def close(self) -> None:
        self.answer()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answering = self._answering

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                answering.wait(120)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Quiet."""

        return Handler
