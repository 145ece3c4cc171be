"""Decodes a batch of records into columns per asset group, and names what is wrong with the others. Pure."""

from connectors.decoding.binary import encode_chunk
from connectors.decoding.decoder import Decoder
from connectors.decoding.readings import REASONS, Decoded, Readings, Rejected

__all__ = ["REASONS", "Decoded", "Decoder", "Readings", "Rejected", "encode_chunk"]
