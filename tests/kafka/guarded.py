"""A broker that asks who one is (SASL PLAIN), and lets nobody do what no rule allows."""

from __future__ import annotations

import base64
import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, ResourcePatternType, ResourceType

from app.bootstrap.artifacts import broker_jars
from app.bootstrap.java import find_java
from app.local.child import Child
from app.local.ports import free_ports

USERS = {"broker": "b", "admin": "a", "app": "right"}
_SETTINGS = """\
process.roles=broker,controller
node.id=1
listeners=SASL_PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=SASL_PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=SASL_PLAINTEXT
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="b" {users};
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:broker;User:admin;User:ANONYMOUS
log.dirs={data}
log.message.timestamp.type=LogAppendTime
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


@dataclass(frozen=True)
class Guarded:
    """The broker, and who may say what."""

    servers: str

    def security(self, user: str = "app", password: str | None = None) -> dict[str, str]:
        """Settings under ``kafka.security``."""
        return {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "username": user, "password": password or USERS[user]}

    def client(self, user: str) -> dict[str, str]:
        """Options of a client."""
        sasl = {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": USERS[user]}
        return {"bootstrap.servers": self.servers, "security.protocol": "sasl_plaintext", "log_level": 0, **sasl}

    def allow(self, kind: ResourceType, rules: Mapping[str, Sequence[AclOperation]], user: str = "app") -> None:
        """Lets a user do something with resources, by name."""
        admin = AdminClient(self.client("admin"))
        bindings = [
            AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", one, AclPermissionType.ALLOW)
            for name, operations in rules.items()
            for one in operations
        ]
        for future in admin.create_acls(bindings).values():
            future.result(30)


@contextmanager
def guarded_broker(folder: Path) -> Iterator[Guarded]:
    """The broker for as long as the block runs."""
    port, controller_port = free_ports(2)
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    settings = folder / "server.properties"
    settings.write_text(_SETTINGS.format(port=port, controller_port=controller_port, users=users, data=folder / "data"))
    java, jars = find_java().command, os.pathsep.join(map(str, broker_jars()))
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    form = [java, "-XX:TieredStopAtLevel=1", "-cp", jars, "kafka.tools.StorageTool", "format", "--standalone", f"--cluster-id={cluster}"]
    subprocess.run([*form, "-c", str(settings)], check=True, capture_output=True, timeout=300)
    child = Child("guarded broker", [java, "-Xmx256m", "-cp", jars, "kafka.Kafka", str(settings)], folder / "broker.log")
    try:
        broker = Guarded(f"127.0.0.1:{port}")
        admin = AdminClient({**broker.client("admin"), "reconnect.backoff.max.ms": 500})
        child.wait_until(lambda: _answers(admin), 300)
        yield broker
    finally:
        child.terminate()


def _answers(admin: AdminClient) -> bool:
    try:
        return bool(admin.list_topics(timeout=2).brokers)
    except KafkaException:
        return False
