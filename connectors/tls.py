"""TLS for clients, with certificates that are read again when their files change."""

import logging
import os
import ssl
from typing import Any

from connectors.secret_files import SecretFile, reveal_secret

log = logging.getLogger(__name__)


class RenewedContext(ssl.SSLContext):
    """Verifies servers and their host names. Before each connection it looks whether a file was replaced.

    A certificate and a key that do not belong together, as while they are being replaced, are not used: the former
    ones stay until the next connection. Authorities are only added: those that were trusted stay so.
    """

    _ca_file: str | None = None
    _cert_file: str | None = None
    _key_file: str | None = None
    _key_password: str | SecretFile | None = None
    _loaded: object = None

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        stamps = self._stamps()
        if stamps != self._loaded:
            try:
                self._load()
            except (OSError, ssl.SSLError) as error:
                log.warning("cannot read the certificates again, so the former ones stay: %s", error)
            else:
                self._loaded = stamps
        return super().wrap_bio(*args, **kwargs)

    def _load(self) -> None:
        if self._cert_file:
            chain = (self._cert_file, self._key_file, reveal_secret(self._key_password))
            # First elsewhere: a failure in between would leave the certificate without its key.
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(*chain)
            self.load_cert_chain(*chain)
        if self._ca_file:
            self.load_verify_locations(cafile=self._ca_file)

    def _stamps(self) -> object:
        return [_stamp(path) for path in (self._ca_file, self._cert_file, self._key_file) if path]


def client_context(
    *,
    ca_file: str | None = None,
    cert_file: str | None = None,
    key_file: str | None = None,
    key_password: str | SecretFile | None = None,
) -> ssl.SSLContext:
    """Like `ssl.create_default_context`. Raises OSError or ssl.SSLError when a file cannot be used."""
    context, usual = RenewedContext(ssl.PROTOCOL_TLS_CLIENT), ssl.create_default_context(cafile=ca_file)
    context.verify_flags, context.minimum_version = usual.verify_flags, usual.minimum_version
    if not ca_file:
        context.load_default_certs()
    context._ca_file, context._cert_file, context._key_file = ca_file, cert_file, key_file
    context._key_password = key_password
    context._loaded = context._stamps()
    context._load()
    return context


def _stamp(path: str) -> object:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
