"""Fingerprints of files and data. Pure."""

import hashlib

import numpy as np

from anchormoe.cases import Cases, Int64


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def data_fingerprint(cases: Cases, y: Int64) -> str:
    """The same for the same values, validity, lengths and labels, whatever file they came from."""
    digest = hashlib.sha256(repr((cases.x.shape, "<f4")).encode())
    for array, kind in ((cases.x, "<f4"), (cases.lengths, "<i8"), (y, "<i8")):
        digest.update(np.ascontiguousarray(array, kind).tobytes())
    digest.update(np.packbits(cases.mask).tobytes())
    return digest.hexdigest()
