"""A certificate authority for one test: server and client certificates for 127.0.0.1, as PEM files."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALIDITY = timedelta(days=2)


@dataclass(frozen=True, slots=True)
class Certificate:
    """Files of one identity; `bundle` holds key and chain together, as Kafka's PEM key store needs them."""

    certificate: Path
    key: Path
    bundle: Path


class Authority:
    """Signs certificates into a directory; `certificate` is the file that clients and servers trust."""

    def __init__(self, directory: Path, name: str = "anchormoe test authority") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.certificate = directory / "authority.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject(name)
        self._own = self._signed_authority()
        self.certificate.write_bytes(_pem(self._own))

    def issue(self, name: str) -> Certificate:
        """Valid for 127.0.0.1 and localhost, as a server and as a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(name, key)
        files = Certificate(*(self.directory / f"{name}{ending}" for ending in (".crt", ".key", ".pem")))
        files.certificate.write_bytes(_pem(certificate))
        files.key.write_bytes(_key_pem(key))
        files.bundle.write_bytes(_key_pem(key) + _pem(certificate) + _pem(self._own))
        return files

    def _signed_authority(self) -> x509.Certificate:
        builder = self._builder(self._name, self._key)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        return builder.sign(self._key, hashes.SHA256())

    def _signed(self, name: str, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
        addresses = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
        uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = self._builder(_subject(name), key).add_extension(addresses, critical=False)
        return builder.add_extension(uses, critical=False).sign(self._key, hashes.SHA256())

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name)
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - _VALIDITY).not_valid_after(now + _VALIDITY)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # PKCS#8 without a password: the only unencrypted form that Kafka's PEM store reads.
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
