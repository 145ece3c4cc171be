"""An HTTP receiver that checks every request: the signature, the token, and the format of the alarms."""

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import jsonschema

from agent.alarms.alert_payloads import signature

POSTABLE_ALERTS: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["labels"],
        "additionalProperties": False,
        "properties": {
            "labels": {"$ref": "#/$defs/labelSet"},
            "annotations": {"$ref": "#/$defs/labelSet"},
            "startsAt": {"type": "string", "format": "date-time"},
            "endsAt": {"type": "string", "format": "date-time"},
            "generatorURL": {"type": "string", "format": "uri"},
        },
    },
    "$defs": {"labelSet": {"type": "object", "additionalProperties": {"type": "string"}}},
}
"""Alertmanager's OpenAPI v2 model `postableAlerts` (api/v2/openapi.yaml), as a JSON Schema without other fields."""

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def check_alerts(alerts: list[dict[str, Any]]) -> None:
    """The schema, and what Alertmanager requires beyond it: valid label names, no empty value, no end before start."""
    jsonschema.Draft202012Validator(POSTABLE_ALERTS).validate(alerts)
    for one in alerts:
        assert one["labels"]["alertname"]
        for name, text in [*one["labels"].items(), *one["annotations"].items()]:
            assert _NAME.fullmatch(name), name
            assert text, name
        assert _moment(one["startsAt"]) <= _moment(one.get("endsAt", one["startsAt"]))
        assert urlsplit(one["generatorURL"]).scheme


def _moment(text: str) -> datetime:
    """RFC 3339, which jsonschema checks only with another package."""
    moment = datetime.fromisoformat(text)
    assert moment.tzinfo is not None, text
    return moment


@dataclass
class CheckingReceiver:
    """`answers`: statuses to give first, then 200; 0 means: hang for 3 s. `page`: the body of these answers."""

    secret: str
    token: str
    answers: list[int] = field(default_factory=list)
    calls: list[Any] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    page: bytes = b""
    url: str = ""
    alertmanager: bool = True

    def receive(self, headers: Any, payload: bytes) -> int:
        try:
            self._check(headers, payload)
        except Exception as error:
            self.errors.append(repr(error))
        if self.answers:
            return self.answers.pop(0)
        self.calls.append(json.loads(payload))
        return 200

    def _check(self, headers: Any, payload: bytes) -> None:
        assert headers["Authorization"] == f"Bearer {self.token}"
        assert headers["Content-Type"] == "application/json"
        stamp = headers["X-Anchormoe-Timestamp"]
        assert abs(time.time() - int(stamp)) < 60
        assert headers["X-Anchormoe-Signature"] == signature(self.secret, stamp, payload)
        if self.alertmanager:
            check_alerts(json.loads(payload))


@contextmanager
def receiving(receiver: CheckingReceiver) -> Iterator[CheckingReceiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            payload = self.rfile.read(int(self.headers["Content-Length"]))
            status = receiver.receive(self.headers, payload)
            if status == 0:
                time.sleep(3)
                status = 200
            self.send_response(status)
            page = b"" if status == 200 else receiver.page
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            """Quiet."""

        def handle(self) -> None:
            with suppress(ConnectionError):
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}/api/v2/alerts"
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
