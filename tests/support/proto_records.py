"""Protobuf bytes written by hand, as the encoding's specification has them. Pure."""

import struct

FLAT = """
syntax = "proto3";  // a comment
package plant;
import "google/protobuf/timestamp.proto";
enum Mode { OFF = 0; ON = 1; }
message Reading {
  option (x) = { a: 1 };
  reserved 9, 12 to 14;
  int64 ts = 1;
  double flow = 2;
  optional float pressure = 3 [(unit) = "bar"];
  string asset = 4;
  message Inner { int32 a = 1; }
}
message Stamped { google.protobuf.Timestamp ts = 1; sint32 flow = 2; /* two */ fixed32 pressure = 3; Mode mode = 4; }
"""


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def tag(field: int, wire: int) -> bytes:
    return varint(field << 3 | wire)


def integer(field: int, value: int) -> bytes:
    return tag(field, 0) + varint(value & (1 << 64) - 1)


def double(field: int, value: float) -> bytes:
    return tag(field, 1) + struct.pack("<d", value)


def single(field: int, value: float) -> bytes:
    return tag(field, 5) + struct.pack("<f", value)


def text(field: int, value: bytes) -> bytes:
    return tag(field, 2) + varint(len(value)) + value


def framed(body: bytes, *, id: int = 7, place: bytes = b"\x00") -> bytes:
    return b"\x00" + id.to_bytes(4) + place + body
