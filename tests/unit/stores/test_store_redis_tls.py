"""`rediss://`: whose certificate is taken, with each release of the client that may be there."""

from __future__ import annotations

import asyncio
import inspect
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from redis import Redis

from ce_engine.errors import StoreError
from ce_engine.stores.documents.redis import RedisStore


pytestmark = pytest.mark.anyio

x509 = pytest.importorskip("cryptography.x509", reason="the extra [encryption] makes certificates")

HERE, ELSEWHERE = "127.0.0.1", "192.0.2.7"


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CE_SECRET", "a secret of tests that is long enough")


@pytest.fixture(params=["the client's defaults", "defaults of 5.2"])
def _release(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases before 6 do not compare the name unless they are told to."""
    if request.param == "defaults of 5.2":
        given = Redis.__init__
        names = inspect.signature(given).parameters
        assert "ssl_check_hostname" in names

        def of_5_2(self: Redis, **options: object) -> None:
            given(self, **({"ssl_check_hostname": False} | options))  # type: ignore[arg-type]

        monkeypatch.setattr(Redis, "__init__", of_5_2)


class Listener(asyncio.Protocol):
    """Keeps what it is told behind TLS, and has no answer."""

    heard = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard += data
        self._transport.write(b"-ERR who are you?\r\n" * 10)
        self._transport.close()


@pytest.mark.usefixtures("_release")
async def test_a_certificate_of_another_host_is_refused(tmp_path: Path) -> None:
    told, heard = await _asked(tmp_path, ELSEWHERE)
    assert "its certificate is not trusted here, names another host" in told
    assert heard == b""


@pytest.mark.usefixtures("_release")
async def test_a_certificate_of_this_host_is_taken(tmp_path: Path) -> None:
    told, heard = await _asked(tmp_path, HERE)
    assert "certificate" not in told
    assert b"pass-word" in heard


async def _asked(folder: Path, address: str) -> tuple[str, bytes]:
    """What the store says of a server with a certificate for `address`, and what came to that server."""
    file, listener = folder / "certificate.pem", Listener()
    file.write_bytes(_certificate_of(address))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    loop = asyncio.get_running_loop()
    async with await loop.create_server(lambda: listener, HERE, 0, ssl=context) as listening:
        port = listening.sockets[0].getsockname()[1]
        store = RedisStore(f"rediss://:pass-word@{HERE}:{port}/0?ca_certs={file}", timeout_s=20)
        with pytest.raises(StoreError) as told:
            await store.check()
        await store.close()
    return str(told.value), listener.heard


def _certificate_of(address: str) -> bytes:
    """A key and a certificate that is its own authority."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a server of tests")])
    usage = dict.fromkeys(
        "content_commitment key_encipherment data_encipherment key_agreement crl_sign encipher_only decipher_only".split(),
        False,
    )
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(digital_signature=True, key_cert_sign=True, **usage), True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    pem: bytes = private + made.public_bytes(serialization.Encoding.PEM)
    return pem
