"""Makes certificate authorities, and certificates of servers and clients that they sign."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, as files."""

    cert: Path
    key: Path


class Authority:
    """A certificate authority; `file` is what is to be trusted."""

    def __init__(self, folder: Path, name: str) -> None:
        self.file = folder / f"{name}.pem"
        self._folder, self._number = folder, 1
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        builder = self._builder(self._name, self._key).add_extension(x509.BasicConstraints(True, None), True)
        self.file.write_bytes(
            builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )

    def issue(self, name: str, *addresses: str) -> Issued:
        """A certificate for some IP addresses, or of a client that has none."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_named(name), key)
        if addresses:
            others = [x509.IPAddress(ipaddress.ip_address(one)) for one in addresses]
            builder = builder.add_extension(x509.SubjectAlternativeName(others), False)
        made = Issued(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        made.cert.write_bytes(
            builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )
        made.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        made.key.chmod(0o600)
        return made

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        self._number += 1
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(self._number)
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
