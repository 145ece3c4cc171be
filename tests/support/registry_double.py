"""A schema registry over real HTTP: what it answers is set per path, well-behaved or hostile."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Answer = bytes | Callable[[asyncio.StreamWriter], Any]


def answer(status: int, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", "connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def schema_answer(schema: Any, **more: Any) -> bytes:
    """As Confluent's registry answers `GET /schemas/ids/ID`; Avro is the kind that it does not name."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return answer(
        200, json.dumps({"schema": text, **more}).encode(), "content-type: application/vnd.schemaregistry.v1+json"
    )


NOT_FOUND = answer(404, b'{"error_code":40403,"message":"Schema not found"}')


@dataclass(slots=True)
class RegistryDouble:
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ")[1].decode()
            self.asked.append(path)
            self.heads.append(head)
            found = self.answers.get(path, NOT_FOUND)
            if isinstance(found, bytes):
                writer.write(found)
                await writer.drain()
            else:
                await found(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def registry_double(answers: dict[str, Answer]) -> AsyncIterator[RegistryDouble]:
    double = RegistryDouble(answers)
    server = await asyncio.start_server(double.serve, "127.0.0.1", 0)
    double.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield double
    finally:
        server.close()
