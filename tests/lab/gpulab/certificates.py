# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keys and certificates of a cluster. They exist in memory only, until they are written to a node."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import typing as t

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALIDITY = datetime.timedelta(days=365)
CLOCKS = datetime.timedelta(hours=1)  # allowed clock skew


class Pair(t.NamedTuple):
    certificate: str
    key: str


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def private_text(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    ).decode()


def public_text(key: ec.EllipticCurvePrivateKey) -> str:
    return (
        key.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode()
    )


def subject(name: str, group: t.Optional[str] = None) -> x509.Name:
    """A subject as Kubernetes reads it: the common name is the user, the organization the group."""
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])


class Authority:
    """A certificate authority."""

    def __init__(self, name: str) -> None:
        self._key = new_key()
        self._name = subject(name)
        made = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        made = made.add_extension(_usage(signs_certificates=True), critical=True)
        self._certificate = made.sign(self._key, hashes.SHA256())

    @property
    def pair(self) -> Pair:
        return Pair(_text(self._certificate), private_text(self._key))

    def client(self, user: str, group: t.Optional[str] = None) -> Pair:
        return self._issue(subject(user, group), [ExtendedKeyUsageOID.CLIENT_AUTH])

    def server(self, name: str, also: t.Sequence[str]) -> Pair:
        """A server's certificate, for its name and additional names and IP addresses."""
        return self._issue(subject(name), [ExtendedKeyUsageOID.SERVER_AUTH], [name, *also])

    def member(self, name: str, also: t.Sequence[str]) -> Pair:
        """The same for a server that is also a client of its peers."""
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._issue(subject(name), usages, [name, *also])

    def kubeconfig(self, url: str, user: str, group: t.Optional[str] = None) -> t.Dict[str, t.Any]:
        """Access of a user with a client certificate to an API server of this authority."""
        pair = self.client(user, group)

        def data(text: str) -> str:
            return base64.b64encode(text.encode()).decode()

        cluster = {"server": url, "certificate-authority-data": data(self.pair.certificate)}
        identity = {"client-certificate-data": data(pair.certificate), "client-key-data": data(pair.key)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "gpufleet", "cluster": cluster}],
            "users": [{"name": user, "user": identity}],
            "contexts": [{"name": "gpufleet", "context": {"cluster": "gpufleet", "user": user}}],
            "current-context": "gpufleet",
        }

    def _issue(self, name: x509.Name, usages: t.Sequence[x509.ObjectIdentifier], also: t.Sequence[str] = ()) -> Pair:
        key = new_key()
        made = self._builder(name, key)
        made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        made = made.add_extension(_usage(signs_certificates=False), critical=True)
        made = made.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if also:
            made = made.add_extension(x509.SubjectAlternativeName([_general_name(each) for each in also]), False)
        return Pair(_text(made.sign(self._key, hashes.SHA256())), private_text(key))

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        own = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - CLOCKS)
            .not_valid_after(now + VALIDITY)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False)
        )


def _text(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
