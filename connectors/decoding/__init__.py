"""Records to columns: what a batch of bytes says, group by group, and which of its records say nothing usable. Pure."""

from connectors.decoding.binary import encode_chunk
from connectors.decoding.decoder import Decoder
from connectors.decoding.readings import REASONS, Decoded, Readings, Rejected

__all__ = ["REASONS", "Decoded", "Decoder", "Readings", "Rejected", "encode_chunk"]
