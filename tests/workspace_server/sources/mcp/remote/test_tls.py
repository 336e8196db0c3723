"""TLS connects to the checked address, and verifies the certificate for the host name."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from support.servers.mcp_sources.remote_server import fake_remote
from support.servers.mcp_sources.remote_source import MakeSource
from workspace_server.sources.mcp.remote import network

NAME = "inside.example"


async def resolver(_host: str, _port: int) -> list[str]:
    return ["127.0.0.1"]


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A file with a certificate for the name and its private key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), False)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    file = tmp_path / "server.pem"
    file.write_bytes(
        made.public_bytes(pem) + key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    )
    return file


@pytest.fixture(autouse=True)
def _own_certificates() -> Iterator[None]:
    network.tls.cache_clear()
    yield
    network.tls.cache_clear()


@pytest.mark.parametrize("trusted", [True, False])
async def test_the_name_is_verified_at_the_checked_address(
    certificate: Path, make_source: MakeSource, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    """SNI and Host carry the name; a server with an untrusted certificate receives no request."""
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    names: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    async with fake_remote(tls=context) as remote:
        source = make_source(
            f"https://{NAME}:{remote.port}/mcp", allow_private=True, dependencies={"resolver": resolver}
        )
        tools = await source.list_tools()
        assert set(names) == {NAME}
        if trusted:
            assert len(tools) == 1
            assert remote.received[0].request.headers["Host"] == f"{NAME}:{remote.port}"
        else:
            assert (source.state, remote.received) == ("backoff", [])
            assert "certificate verify failed" in (source.error or "")
