"""Small certificate authority: its own certificate and key, and the certificates that it signs."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tfscale.core.access.caller_role import CallerRole
from tfscale.core.errors import UsageError

_NAME = "tfscale"
_AUTHORITY_DAYS = 3650
_LONGEST_NAME = 64
"""Characters of a common name [RFC 5280]; the subjectAltName has the whole one."""
_EARLY = timedelta(hours=1)
"""Time before a certificate is made from which it is valid: clocks of hosts differ."""


@dataclass(frozen=True, slots=True)
class Signed:
    """Certificate and its key, as PEM."""

    certificate: bytes
    key: bytes
    end: datetime


class Authority:
    """Certificate of an authority, with the key that signs others."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, now: datetime) -> None:
        self._certificate, self._key = certificate, key
        self.now = now
        """When the certificates that it signs are made."""

    @classmethod
    def new(cls, now: datetime) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _named(_NAME)
        builder = _builder(name, name, key.public_key(), now, now + timedelta(days=_AUTHORITY_DAYS))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs=True), critical=True)
        return cls(builder.sign(key, hashes.SHA256()), key, now)

    @classmethod
    def read(cls, certificate: Path, key: Path, now: datetime) -> Authority:
        """Return the authority in two PEM files. Raises UsageError where they cannot sign now."""
        own, private = _read_certificate(certificate), _read_key(key)
        if not isinstance(private, ec.EllipticCurvePrivateKey) or own.public_key() != private.public_key():
            raise UsageError(f"--ca-key: {key} is not the key of {certificate}, or no elliptic one")
        try:
            is_authority = own.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        except x509.ExtensionNotFound:
            is_authority = False
        if not is_authority:
            raise UsageError(f"--ca: {certificate} is no certificate of an authority")
        if not own.not_valid_before_utc <= now < own.not_valid_after_utc:
            raise UsageError(
                f"--ca: {certificate} expired on {own.not_valid_after_utc:%Y-%m-%d}: make another authority"
            )
        return cls(own, private, now)

    @property
    def certificate(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key(self) -> bytes:
        return _pem(self._key)

    def sign(self, name: str, role: CallerRole, hosts: Sequence[str], days: int) -> Signed:
        """Make a key and its certificate, which does not outlive the authority's.

        `hosts` are the names and IP addresses of an agent's host, and empty for a person: only agents are servers.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        end = min(self.now + timedelta(days=days), self._certificate.not_valid_after_utc)
        builder = _builder(_named(name), self._certificate.subject, key.public_key(), self.now, end)
        names = [*map(_host_name, hosts), x509.UniformResourceIdentifier(role.uri)]
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *[ExtendedKeyUsageOID.SERVER_AUTH] * bool(hosts)]
        own_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        for extension, is_critical in (
            (x509.SubjectAlternativeName(names), False),
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_usage(signs=False), True),
            (x509.ExtendedKeyUsage(purposes), False),
            (own_key, False),
        ):
            builder = builder.add_extension(extension, critical=is_critical)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Signed(certificate.public_bytes(serialization.Encoding.PEM), _pem(key), end)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLY)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_LONGEST_NAME])])


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _read_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise UsageError(f"--ca: {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"--ca: {path} is no certificate in PEM") from None


def _read_key(path: Path) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(path.read_bytes(), None)
    except OSError as error:
        raise UsageError(f"--ca-key: {path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError):
        raise UsageError(f"--ca-key: {path} is no key in PEM, or an encrypted one") from None
