"""A broker that wants to know who it speaks with, in every way that we support, a token endpoint, and a registry behind a password."""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from app.bootstrap.artifacts import broker_jars
from app.bootstrap.java import find_java
from app.local import broker as embedded
from app.local.broker import Broker, wait_for_broker
from app.local.child import Child
from app.local.ports import accepts, free_ports
from tests.certificates import Authority, Identity, replace

WAYS = ("plaintext", "scram", "oauth", "mutual")
START_S = 180.0
REAUTHENTICATE_MS = 4_000
"""The broker wants proof again after so long: what makes an exchanged password count while a connection is kept."""
USER, CLIENT, AUDIENCE, ISSUER = "cep-user", "cep-client", "kafka", "tests"

SETTINGS = """\
listeners=PLAINTEXT://127.0.0.1:{plaintext},OUTSIDE://{listen}:{outside},SCRAM://{listen}:{scram},OAUTH://{listen}:{oauth},MUTUAL://{listen}:{mutual},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{plaintext},OUTSIDE://{host}:{outside},SCRAM://{host}:{scram},OAUTH://{host}:{oauth},MUTUAL://{host}:{mutual},CONTROLLER://127.0.0.1:{controller_port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT,SCRAM:SASL_SSL,OAUTH:SASL_SSL,MUTUAL:SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
listener.name.mutual.ssl.client.auth=required
listener.name.scram.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.scram.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.scram.scram-sha-512.connections.max.reauth.ms={reauthenticate_ms}
listener.name.oauth.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.oauth.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
listener.name.oauth.oauthbearer.sasl.server.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler
listener.name.oauth.sasl.oauthbearer.jwks.endpoint.url={keys_url}
listener.name.oauth.sasl.oauthbearer.expected.audience={audience}
listener.name.oauth.sasl.oauthbearer.expected.issuer={issuer}
"""
"""Behind the embedded broker's own; later lines win."""


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class TokenEndpoint:
    """Gives signed tokens to the client that knows its secret, over TLS.

    Attributes:
        secret: of the client; may be changed.
        asked: how often it has given one.
    """

    def __init__(self, identity: Identity, secret: str, keys: Path) -> None:
        self.secret, self.asked = secret, 0
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        numbers = self._key.public_key().public_numbers()
        parts = {
            name: encoded(number.to_bytes((number.bit_length() + 7) // 8, "big")) for name, number in (("n", numbers.n), ("e", numbers.e))
        }
        keys.write_text(json.dumps({"keys": [{"kty": "RSA", "kid": "tests", "use": "sig", "alg": "RS256", **parts}]}))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity.certificate, identity.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"https://localhost:{self._server.server_port}/token"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def token(self) -> str:
        now = int(time.time())
        claims = {"sub": CLIENT, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 3600, "scope": "all"}
        signed = ".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT", "kid": "tests"}, claims))
        return f"{signed}.{encoded(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                shown = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
                good = shown == f"{CLIENT}:{endpoint.secret}"
                endpoint.asked += good
                body = json.dumps(
                    {"access_token": endpoint.token(), "token_type": "Bearer", "expires_in": 3600} if good else {"error": "no"}
                )
                self.send_response(200 if good else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@dataclass
class Secured:
    """All of it.

    Attributes:
        host: by which clients of the secured ways know this machine.
        secrets: by what they are for; all of them are in files of `folder`, by the same names.
    """

    broker: Broker
    host: str
    ports: dict[str, int]
    tokens: TokenEndpoint
    authority: Authority
    folder: Path
    secrets: dict[str, str]

    def kafka(self, way: str) -> dict[str, Any]:
        """The section of the settings for one way of speaking with the broker."""
        return {
            "bootstrap_servers": f"{'127.0.0.1' if way == 'plaintext' else self.host}:{self.ports[way]}",
            "starting_offsets": "earliest",
            "security": self._security(way),
        }

    def _security(self, way: str) -> dict[str, Any]:
        authority = {"ca_file": str(self.authority.file)}
        if way == "scram":
            own = {"mechanism": "SCRAM-SHA-512", "username": USER, "password_file": str(self.folder / "password")}
            return {"protocol": "SASL_SSL", **own, **authority}
        if way == "oauth":
            oauth = {"token_endpoint_url": self.tokens.url, "client_id": CLIENT, "client_secret_file": str(self.folder / "client-secret")}
            return {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", "oauth": {**oauth, "scope": "all", **authority}, **authority}
        if way == "mutual":
            own = {"certificate_file": str(self.folder / "client.crt"), "key_file": str(self.folder / "client.key")}
            return {"protocol": "SSL", **own, "key_password_file": str(self.folder / "key-password"), **authority}
        return {}

    def set_password(self, password: str) -> None:
        """The broker's side of an exchange; ours is the file."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers, "log_level": 0})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(USER, info, password.encode())
        for future in admin.alter_user_scram_credentials([change], request_timeout=60).values():
            future.result(timeout=60)

    def exchange_password(self, password: str) -> None:
        """Both sides: the broker's first, as one does it."""
        self.set_password(password)
        self.secrets["password"] = password
        replace(self.folder / "password", password)


@contextmanager
def secured_services(folder: Path, host: str | None = None) -> Iterator[Secured]:
    """Broker and token endpoint for as long as the block runs.

    Args:
        folder: for everything that is written; it is there.
        host: listen on all interfaces, for clients that know this machine by this name; None: for this machine alone.
    """
    secrets = {name: f"planted-{name}-{os.urandom(6).hex()}" for name in ("password", "client-secret", "key-password")}
    for name, secret in secrets.items():
        (folder / name).write_text(secret)
    authority = Authority(folder)
    server = authority.issue("server", hosts=[host] if host else [])
    authority.issue("client", secrets["key-password"])
    with ExitStack() as cleanup:
        tokens = TokenEndpoint(server, secrets["client-secret"], folder / "keys.json")
        cleanup.callback(tokens.close)
        ports = dict(zip((*WAYS, "outside", "controller_port"), free_ports(6), strict=True))
        _configure(folder, ports, server, authority, host)
        broker = _broker(folder, ports, host)
        cleanup.callback(broker.child.terminate)
        wait_for_broker(broker)
        found = Secured(broker, host or "localhost", ports, tokens, authority, folder, secrets)
        found.set_password(secrets["password"])
        yield found


def _configure(folder: Path, ports: dict[str, int], server: Identity, authority: Authority, host: str | None) -> None:
    keystore = folder / "keystore.pem"
    keystore.write_text(server.key.read_text() + server.certificate.read_text())
    own = embedded._SETTINGS.format(port=ports["plaintext"], controller_port=ports["controller_port"], data=folder / "data")
    places = {**ports, "keystore": keystore, "authority": authority.file, "keys_url": f"file://{folder / 'keys.json'}"}
    names = {"listen": "0.0.0.0" if host else "127.0.0.1", "host": host or "localhost"}
    told = SETTINGS.format(**places, **names, reauthenticate_ms=REAUTHENTICATE_MS, audience=AUDIENCE, issuer=ISSUER)
    (folder / "server.properties").write_text(own + told)


def _broker(folder: Path, ports: dict[str, int], host: str | None) -> Broker:
    settings, keys = folder / "server.properties", folder / "keys.json"
    class_path, java = os.pathsep.join(str(jar) for jar in broker_jars()), find_java().command
    embedded._format(java, class_path, settings)
    allowed = [
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{keys}",
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={keys}",
    ]
    child = Child("secured broker", [java, "-Xmx512m", *allowed, "-cp", class_path, "kafka.Kafka", str(settings)], folder / "broker.log")
    child.wait_until(lambda: all(accepts(ports[way]) for way in WAYS), START_S)
    return Broker(f"127.0.0.1:{ports['plaintext']}", child, folder, f"{host}:{ports['outside']}" if host else None)


class GuardedRegistry:
    """Passes requests on to a registry when they show the password.

    Args:
        url: of the registry.
        identity: to speak TLS with; None: plain HTTP.
        listen: the address to listen on.

    Attributes:
        url: as seen through it.
    """

    def __init__(self, url: str, user: str, password: str, identity: Identity | None = None, listen: str = "127.0.0.1") -> None:
        self.password = password
        parts, guard = urlsplit(url), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                if base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode() != f"{user}:{guard.password}":
                    self._answer(401, b"{}")
                    return
                passed = {name: value for name, value in self.headers.items() if name.lower() in ("content-type", "accept")}
                connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
                connection.request(self.command, self.path, body or None, passed)
                answer = connection.getresponse()
                self._answer(answer.status, answer.read(), answer.headers.get("Content-Type", "application/json"))
                connection.close()

            do_GET = do_POST = do_PUT = do_DELETE = _pass_on

            def _answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer((listen, 0), Handler)
        if identity is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(identity.certificate, identity.key)
            # whoever connects and says nothing holds up its own thread only
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        scheme = parts.scheme if identity is None else "https"
        self.url = parts._replace(scheme=scheme, netloc=f"127.0.0.1:{self._server.server_port}").geturl()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
