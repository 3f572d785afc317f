"""All settings of the application: one frozen tree, read from a YAML file and the environment, unknown keys refused.

The text under a field is its documentation (meaning, unit, why this default); the README's table is made from it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError, model_validator

from app.config.addresses import Address, BucketAddress, parse_address
from app.config.durations import Duration
from app.config.sources import Sourced, merge, read_environment, read_yaml
from app.errors import ConfigurationError, Finding, Location

Level = Literal["DEBUG", "INFO", "WARNING", "ERROR"]

REFUSED_CLIENT_OPTIONS = frozenset(
    {
        "bootstrap.servers",
        "group.id",
        "auto.offset.reset",
        "key.deserializer",
        "value.deserializer",
        "key.serializer",
        "value.serializer",
        "enable.auto.commit",
        "interceptor.classes",
        "enable.idempotence",
        "acks",
        "isolation.level",
        "transactional.id",
    }
)
"""Spark refuses most of these, and the delivery guarantee rests on the others."""
ONLY_JAVA, ONLY_LIBRDKAFKA = "java.", "librdkafka."
"""What a client option begins with that is for one of the two Kafka clients only."""


def bare_option(name: str) -> str:
    """A client option as its client calls it.

    >>> bare_option("kafka.client.rack"), bare_option("java.client.rack"), bare_option("client.rack")
    ('client.rack', 'client.rack', 'client.rack')
    """
    for prefix in (ONLY_JAVA, ONLY_LIBRDKAFKA, "kafka."):
        name = name.removeprefix(prefix)
    return name


SECRET_SPARK_SETTING = re.compile(r"(password|passphrase|secret|(secret|access)[._-]?key|token)$", re.IGNORECASE)
"""Names of Spark settings whose values are secrets."""
SECRET_OPTION_WORDS = ("password", "secret", "jaas", "token", "key.pem", "ssl.key")


def _option_texts(options: object) -> object:
    """YAML reads ``true`` and ``10`` as such; Kafka's and Spark's options are texts."""
    if not isinstance(options, dict):
        return options
    return {str(name): ("true" if value else "false") if isinstance(value, bool) else str(value) for name, value in options.items()}


Options = Annotated[dict[str, str], BeforeValidator(_option_texts)]


class _Section(BaseModel):
    """A part of the tree. A secret ``name`` may be given as ``name_file``: then the file's content (without trailing newline) is the value."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _read_secret_files(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        filled = dict(data)
        for name in cls.model_fields:
            if not name.endswith("_file") or "SecretStr" not in str(getattr(cls.model_fields.get(name[:-5]), "annotation", "")):
                continue
            path = filled.get(name)
            if path is None:
                continue
            if filled.get(name[:-5]) is not None:
                raise ValueError(f"give either {name[:-5]} or {name}, not both")
            try:
                filled[name[:-5]] = Path(str(path)).read_text(encoding="utf-8").rstrip("\r\n")
            except OSError as error:
                raise ValueError(f"{name}: cannot read {path}: {error.strerror}") from error
        return filled


class OAuth(_Section):
    """How to get tokens for SASL OAUTHBEARER."""

    token_endpoint_url: str = ""
    """Where tokens are fetched (OpenID Connect client credentials)."""
    client_id: str = ""
    """The client's name at the token endpoint."""
    client_secret: SecretStr | None = None
    """The client's secret at the token endpoint."""
    client_secret_file: Path | None = None
    """A file with the client's secret; executors must see the same path."""
    scope: str | None = None
    """The scope asked for; most brokers need none."""
    ca_file: Path | None = None
    """PEM certificates of the authority that signs the token endpoint's certificate; without it the system's are used."""


class KafkaSecurity(_Section):
    """How to talk to the brokers, for both clients (the JVM's and librdkafka)."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """Transport and authentication; PLAINTEXT fits a broker on the same machine only."""
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = None
    """The SASL mechanism; needed with the SASL protocols."""
    username: str | None = None
    """The SASL user."""
    password: SecretStr | None = None
    """The SASL password. Where executors are on other machines, `password_file` is needed: a secret reaches them as a file only."""
    password_file: Path | None = None
    """A file with the SASL password, at the same path in driver and executors. Clients read it when they connect, so a password may change while the application runs."""
    ca_file: Path | None = None
    """PEM certificates of the authorities that sign the brokers' certificates; without it the system's are used."""
    certificate_file: Path | None = None
    """PEM certificate chain of this client (mutual TLS)."""
    key_file: Path | None = None
    """PEM private key of this client (mutual TLS), PKCS#8: the JVM reads no other form."""
    key_password: SecretStr | None = None
    """Password of the private key, where it is encrypted (``BEGIN ENCRYPTED PRIVATE KEY``). Java 17 reads PBES1 only (``openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES``)."""
    key_password_file: Path | None = None
    """A file with that password, at the same path in driver and executors."""
    verify_hostname: bool = True
    """Whether the broker's certificate must name the broker's host; false is for test clusters only."""
    oauth: OAuth = OAuth()
    """Tokens for OAUTHBEARER."""

    @model_validator(mode="after")
    def _complete(self) -> KafkaSecurity:
        if self.protocol.startswith("SASL") and self.mechanism is None:
            raise ValueError(f"protocol {self.protocol} needs a mechanism")
        if self.mechanism == "OAUTHBEARER" and not self.oauth.token_endpoint_url:
            raise ValueError("OAUTHBEARER needs oauth.token_endpoint_url")
        if self.mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512") and (self.username is None or self.password is None):
            raise ValueError(f"mechanism {self.mechanism} needs username and password")
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("certificate_file and key_file go together")
        if self.key_password is not None and self.key_file is None:
            raise ValueError("key_password needs a key_file")
        return self


class ShadowGroup(_Section):
    """A consumer group that nobody is in: after each batch the offsets that it has read up to are committed there, so that ordinary lag tools see the application."""

    enabled: bool = True
    """Whether offsets up to which a batch has read are committed to a consumer group, for lag tools. Nothing is ever read from there, and no batch waits for it or fails because of it: failures are logged once and counted (``cep_shadow_commit_errors_total``). The group and the streams' topics need the permission READ."""
    name: str | None = Field(default=None, min_length=1)
    """Name of the group; by default the application's, behind ``kafka.group_id_prefix`` and a dash where that is set. No consumer may be in it."""


class Kafka(_Section):
    """The brokers and how they are read."""

    bootstrap_servers: str = "localhost:9092"
    """Brokers as ``host:port``, separated by commas; the default is what a broker on the same machine listens on."""
    security: KafkaSecurity = KafkaSecurity()
    """Encryption and authentication."""
    client_options: Options = {}
    """Further options of the Kafka clients, by the names of Java's client. Spark's source gets all of them; our own producers and consumers (librdkafka) get those that it has, some under its own names (``max.request.size`` is its ``message.max.bytes``; `app/delivery/client_options.py` has the table). ``java.NAME`` is for Spark's source only, ``librdkafka.NAME`` for our own clients only. A log line at the start says what reached which. Options that the application needs itself are refused."""
    starting_offsets: Literal["earliest", "latest"] = "latest"
    """Where a new checkpoint starts to read; ``latest`` because old alerts are seldom wanted. An existing checkpoint goes on where it was."""
    max_offsets_per_trigger: int = Field(default=400_000, gt=0)
    """Most records per micro-batch. 400,000 is 70–80 % free of fixed cost while catching up; a million adds little and doubles the latency."""
    max_bytes_per_trigger: int = Field(default=256 << 20, gt=0)
    """About the most bytes per micro-batch (keys and values). Spark counts records, so at every start the sizes of the topics' records are estimated from a sample, and `max_offsets_per_trigger` is lowered if that many would be more. 256 MiB is 400,000 records of 670 bytes: smaller ones are bounded by their number."""
    max_poll_records: int = Field(default=10_000, gt=0)
    """Records per poll of Spark's consumer; Kafka's 500 costs a few percent of throughput."""
    max_partition_fetch_bytes: int = Field(default=8 << 20, gt=0)
    """Bytes per partition and fetch; goes with `max_poll_records`."""
    fail_on_data_loss: bool = True
    """Whether to stop when retention deleted unread records, or a topic was deleted and created again. False goes on with what is there, so it is not the default."""
    isolation_level: Literal["read_committed", "read_uncommitted"] = "read_committed"
    """Which records of transactional producers are read. ``read_committed``: those of committed transactions, once they are committed; an open transaction holds its topic partition up until then. ``read_uncommitted``: all at once, those of aborted transactions as well."""
    group_id_prefix: str | None = None
    """Prefix of the source's consumer groups, for ACLs; Spark makes up ``spark-kafka-source-…`` without it."""
    shadow_group: ShadowGroup = ShadowGroup()
    """What lag tools see."""

    @model_validator(mode="after")
    def _options_allowed(self) -> Kafka:
        refused = sorted(REFUSED_CLIENT_OPTIONS & {bare_option(name) for name in self.client_options})
        if refused:
            own = "; kafka.isolation_level is a setting of its own" if "isolation.level" in refused else ""
            raise ValueError(f"client_options: {', '.join(refused)} may not be set, the application needs to{own}")
        secret = sorted(name for name in self.client_options if any(word in name for word in SECRET_OPTION_WORDS))
        if secret:
            raise ValueError(f"client_options: {', '.join(secret)} belongs under kafka.security, where it is kept out of logs and plans")
        return self


class SchemaRegistry(_Section):
    """The registry that knows the Avro schemas (Confluent's API)."""

    url: str = "http://localhost:8081"
    """Base URL; Apicurio's compatible API ends in ``/apis/ccompat/v7``. ``mock://name`` keeps schemas in the process, for tests."""
    username: str | None = None
    """User for HTTP basic authentication."""
    password: SecretStr | None = None
    """Password for HTTP basic authentication."""
    password_file: Path | None = None
    """A file with the password, at the same path in driver and executors; it is read again when it changes."""
    ca_file: Path | None = None
    """PEM certificates of the authority that signs the registry's certificate."""
    timeout: Duration = Field(default="5 s", validate_default=True)
    """How long a request may take; schemas are cached for ever, so this is waited for once per schema."""
    retry_for: Duration = Field(default="30 s", validate_default=True)
    """How long an unreachable registry (or broker) is asked again at the start, for what the checkpoint does not hold. With ``on_registry_down: dead_letter`` also how long in a batch, before records with an unseen schema id become dead letters."""
    on_registry_down: Literal["wait", "dead_letter"] = "wait"
    """What happens to records whose schema nobody has seen yet while the registry is unreachable. ``wait``: the batch waits for it, and with it everything behind; good events never become dead letters for an outage. ``dead_letter``: after `retry_for` such records become dead letters and the stream goes on."""
    wait_for: Duration = Field(default="15 m", validate_default=True)
    """How long a batch waits for an unreachable registry before the application ends with an error; the next start waits again. Long enough for a registry that is being repaired, short enough for somebody to notice."""
    register_schemas: bool = True
    """Whether to register the schemas of composite events and reports; where only a pipeline may register, set false."""

    @model_validator(mode="after")
    def _without_user(self) -> SchemaRegistry:
        if "@" in urlsplit(self.url).netloc:
            raise ValueError("url: user and password are username and password_file; the address is told in logs and errors")
        return self


class Stream(_Section):
    """One input stream: where its events come from and how time passes in it."""

    topics: tuple[str, ...] = ()
    """Kafka topics that hold the stream's events; empty only for streams that are read from files."""
    schemas: tuple[Path, ...] = ()
    """Avro schema files of the stream's event types, relative to the settings file; they are the readers' schemas."""
    subjects: tuple[str, ...] = ()
    """Registry subjects to take the event types from instead of files; without either, ``<topic>-value`` of each topic."""
    type: str = "record"
    """Where an event's type comes from: ``record`` is the Avro record's name; any other word is an attribute whose value is the type."""
    time: str | None = None
    """The attribute with the event's time (integer milliseconds, date or timestamp); without it, the record's Kafka timestamp."""
    allowed_lateness: Duration = Field(default="0 s", validate_default=True)
    """How far a topic partition's watermark stays behind its greatest time: the longest disorder that is repaired. Every event waits this long."""
    idle_after: Duration = Field(default="5 s", validate_default=True)
    """A topic partition that is silent this long holds the others up no longer. Longer than the producers' usual pauses and several micro-batches."""
    max_ahead: Duration = Field(default="1 d", validate_default=True)
    """How far an event's time may be ahead of the record's Kafka timestamp; what lies further ahead becomes a dead letter (``time-ahead``). A day forgives clocks and time zones; one event from next year would carry the watermark along and make all others late. Streams shown in time-lapse want more."""
    ordered_by: str | None = None
    """An attribute by which producers write in time order into one topic partition: matches that share it wait for no other partition."""
    rename: dict[str, str] = {}
    """Attribute names in the data → names in queries, for instance ``{tagId: tag_id}``."""
    wire: Literal["confluent", "guid-header"] = "confluent"
    """How a record names its schema: ``confluent`` is a zero byte and a 4-byte id before the data; ``guid-header`` a header (three times the ingress cost)."""
    partitions: int = Field(default=4, gt=0)
    """Topic partitions that ``cep topics apply`` creates."""

    @model_validator(mode="after")
    def _consistent(self) -> Stream:
        if self.schemas and self.subjects:
            raise ValueError("give either schemas or subjects, not both")
        if self.ordered_by is not None and len(self.topics) > 1:
            raise ValueError("ordered_by needs a stream of one topic")
        if len(set(self.topics)) < len(self.topics):
            raise ValueError("a topic is named twice")
        return self

    @property
    def type_attribute(self) -> str | None:
        """The attribute that holds the type, or None when the record's name is the type."""
        return None if self.type == "record" else self.type


class Reload(_Section):
    """Changes of query files while the application runs."""

    enabled: bool = True
    """Whether the driver looks for changed query files and models and runs them without a restart; false reads them at its start only."""
    interval: Duration = Field(default="1 s", validate_default=True, gt=0)
    """How soon a change is seen. A file is read when it has been the same for half of it, so that no half-written one is."""


class Queries(_Section):
    """Where the queries are."""

    paths: tuple[Path, ...] = (Path("queries"),)
    """Files or folders of query YAML, relative to the settings file."""
    models: Path | None = None
    """Folder of ``<query>.model``, written by ``cep train``, relative to the settings file; read at the start and when it changes. A query whose shedder has no model there uses what the application has learned (``learning``); until there is any, it sheds at random."""
    reload: Reload = Reload()
    """Changes while it runs."""


class Topics(_Section):
    """Names of the topics that the application writes. ``{prefix}`` stands for `prefix`."""

    prefix: str = "cep"
    """Beginning of every default topic name; also of the topics of queries without ``output.topic`` (``<prefix>.<query>``)."""
    late: str = "{prefix}.late"
    """Events that came after their watermark."""
    dead_letters: str = "{prefix}.dead-letters"
    """Records that could not be decoded, with key, value, headers and reason."""
    audit: str = "{prefix}.audit"
    """What shedding did, decided, cost and may have invented, changes of models, and what ``cep reconcile`` published; the kinds of records are in ``ops/runbooks/operate.md``."""
    timeouts: str = "{prefix}.timeouts"
    """Partial matches that ran out of their window, for queries with ``on_timeout: emit``."""
    heartbeat: str = "{prefix}.heartbeat"
    """A tiny topic that the driver writes to when all input is silent, so that waiting negations fire."""
    partitions: int = Field(default=4, gt=0)
    """Partitions of the topics above and of the queries' topics when they are created (the heartbeat has one)."""
    create_outputs: bool = False
    """Whether the application makes topics of composite events that are missing, as ``cep topics apply`` would: at its start, and when a query comes while it runs. Other topics it never makes. With false a start without such a topic ends, and a query that comes while the application runs waits until somebody makes its topic, since who may create topics is often somebody else."""
    max_record_bytes: int = Field(default=1_000_000, ge=10_000)
    """Largest record that is written, key and headers included; a little below Kafka's own limit (1 MiB), above which the sink would fail and the query end. A dead letter or late event that is larger comes without its value, a composite event becomes a dead letter (``oversized``). Whoever raises it raises ``max.message.bytes`` of the topics as well."""
    replication_factor: int = Field(default=1, gt=0)
    """Copies of each created topic; 1 fits a single broker, production wants 3."""

    @model_validator(mode="before")
    @classmethod
    def _expand_prefix(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        prefix = str(data.get("prefix", cls.model_fields["prefix"].default))
        names = ("late", "dead_letters", "audit", "timeouts", "heartbeat")
        texts = {name: data.get(name, cls.model_fields[name].default) for name in names}
        return {**data, **{name: text.replace("{prefix}", prefix) if isinstance(text, str) else text for name, text in texts.items()}}

    def of_query(self, name: str) -> str:
        """The topic of a query that names none."""
        return f"{self.prefix}.{name}"


SPARK_FOLDER = "spark"
"""Spark's own files lie there, beside ours."""


def _place(path: str) -> str:
    address = parse_address(path)
    if isinstance(address, BucketAddress) and "?" in path:
        raise ValueError("endpoint and region are settings of their own: checkpoint.s3.endpoint, checkpoint.s3.region")
    return path


class S3(_Section):
    """Where an S3 bucket is. Credentials are no settings: they come from ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY`` of driver and executors, or the pod's role."""

    endpoint: str | None = Field(default=None, pattern=r"^https?://[^/?#]+$")
    """``http://host:port`` or ``https://host:port`` of a server that is not Amazon's (MinIO, Ceph); it is asked path-style."""
    region: str | None = Field(default=None, min_length=1)
    """The bucket's region; without it, ``AWS_REGION`` says."""


class Checkpoint(_Section):
    """Where offsets, state and directives survive a restart."""

    path: Annotated[str, AfterValidator(_place)] = "checkpoint"
    """Folder (relative to the working directory; all executors must see it under this path) or ``s3a://bucket/path``; one driver per checkpoint. `cep checkpoint rescale` changes the number of buckets."""
    s3: S3 = S3()
    """The server, for a checkpoint in S3."""

    @model_validator(mode="after")
    def _server_needed(self) -> Checkpoint:
        if self.s3 != S3() and not isinstance(self.address, BucketAddress):
            raise ValueError(
                f"s3 says where a bucket is, but path {self.path} is a folder; name a bucket, s3a://bucket/path, or leave s3 out"
            )
        return self

    @property
    def address(self) -> Address:
        """Folder or bucket, read from `path` and `s3`."""
        address = parse_address(self.path)
        return replace(address, endpoint=self.s3.endpoint, region=self.s3.region) if isinstance(address, BucketAddress) else address

    @property
    def uri(self) -> str:
        """What `app.storage.open.open_store` takes, in this and every other process: all but credentials."""
        return self.address.uri

    @property
    def spark_location(self) -> str:
        """Spark's own part of the checkpoint, as Spark takes it; `SPARK_FOLDER` in the store."""
        return f"{self.address.hadoop_uri}/{SPARK_FOLDER}"


class Delivery(_Section):
    """What the topics of composite events promise."""

    guarantee: Literal["at-least-once"] = "at-least-once"
    """``at-least-once``: after a crash composite events may be written again, with the same identity. Exactly-once comes with a later version."""
    on_accounting_breach: Literal["fail", "warn"] = "fail"
    """What happens when the accounts of a batch do not close (events without an end, rows that got lost, output that did not arrive): ``fail`` ends the application before the batch is committed, ``warn`` logs and counts it."""


class Spark(_Section):
    """The engine that runs the micro-batches."""

    master: str = "local[2]"
    """Spark's master URL; ``local[2]`` runs everything in one process with two tasks at a time."""
    buckets: int = Field(default=2, gt=0, le=4096)
    """Parts that matching is divided into; in an existing checkpoint changed by ``cep checkpoint rescale`` only. At least as many as cores of all executors together; each costs about 2 ms of CPU per batch."""
    keep_buckets: bool = False
    """Whether an existing checkpoint's own number of buckets counts, and `buckets` only for a new one; false refuses a start with another number, so that nobody believes to have changed it. The chart sets it where it derives the number from the executors."""
    ingress_tasks: int = Field(default=2, gt=0)
    """Tasks that decode; topic partitions are merged into so many. As many as cores (a third less latency than one task per partition)."""
    trigger: Duration = Field(default="0 s", validate_default=True)
    """Shortest distance of two micro-batches; 0 starts the next one at once, which gives the lowest latency."""
    stop_timeout: Duration = Field(default="20 s", validate_default=True)
    """How long a stop waits for the batch in flight; shorter than the pod's grace period."""
    batch_attempts: int = Field(default=4, gt=0)
    """How often a batch is tried before the application ends with exit code 65; an attempt fails when an owner of buckets is lost, or cannot do it."""
    stall_after: Duration = Field(default="5 min", validate_default=True)
    """A batch that takes longer makes ``/readyz`` fail and is logged with what the owners of buckets are doing. Longer than the longest catch-up batch."""
    encryption: Literal["auto", "on", "off"] = "auto"
    """Whether what driver, executors, tasks and owners of buckets say to each other is encrypted. ``auto``: where they may be on several machines. They prove to each other who they are in any case."""
    conf: Options = {}
    """Further Spark settings, by Spark's names; they win over the application's own. Not for secrets: Spark's command line shows them to everybody on the machine."""

    @model_validator(mode="after")
    def _no_secrets(self) -> Spark:
        if secret := sorted(name for name in self.conf if SECRET_SPARK_SETTING.search(name)):
            raise ValueError(
                f"conf: {', '.join(secret)}: a secret given here would stand in the process list; use a file, or Spark's own file setting"
            )
        return self


class Control(_Section):
    """The control port: for people, and for tasks that ask what to do while the schema registry is away. It answers what `http.port` answers as well, so that tools need one address."""

    port: int | None = Field(default=None, ge=0, le=65535)
    """Port of its own, beside `http.port`, which then answers nothing but probes and metrics; without it, `http.port` answers everything. Set it where others can reach the port of metrics. 0 takes any free one (tests)."""
    host: str | None = None
    """Address to listen on; by default that of `http.host`."""
    token: SecretStr | None = Field(default=None, min_length=16)
    """What is shown to change something (``Authorization: Bearer TOKEN``); without it, nothing can be changed over HTTP."""
    token_file: Path | None = None
    """A file with the token; it is read again when it changes."""
    read_with_token: bool = False
    """Whether reading needs the token too: then browsers ask for it (any user name, the token as the password). Queries and composite events are read here, so this is for networks in which not everybody may see them."""
    certificate_file: Path | None = None
    """PEM certificate chain: then the control port speaks TLS. Files are read again when they change. Needs a `port` of its own: probes and scrapers speak plain HTTP."""
    key_file: Path | None = None
    """PEM private key of the certificate."""
    key_password: SecretStr | None = None
    """Password of the private key, where it has one."""
    key_password_file: Path | None = None
    """A file with that password."""

    @model_validator(mode="after")
    def _complete(self) -> Control:
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("certificate_file and key_file go together")
        if self.certificate_file is not None and self.port is None:
            raise ValueError("TLS needs a port of its own: http.port is asked by probes and scrapers, in plain HTTP")
        if self.read_with_token and self.token is None:
            raise ValueError("read_with_token needs a token")
        return self


class Http(_Section):
    """The driver's HTTP server: health and metrics, and everything else where `control` has no port of its own; and the token of all parts of the application."""

    host: str = "127.0.0.1"
    """Address to listen on. Only this machine by default; ``0.0.0.0`` (as the chart has it) where kubelet, Prometheus or executors ask from outside."""
    port: int = Field(default=8080, ge=0, le=65535)
    """Port; 0 takes any free one (tests)."""
    control: Control = Control()
    """The control port."""
    advertised_host: str | None = None
    """Name or address under which executors reach the driver while the schema registry is away; by default ``spark.driver.host``, or 127.0.0.1 with a local master."""
    task_token: SecretStr | None = Field(default=None, min_length=16)
    """What driver, tasks and owners of buckets prove to each other that they know; it never travels. By default a random one per start, which fits one machine."""
    task_token_file: Path | None = None
    """A file with that token, at the same path in driver and executors; needed where executors are on other machines. Spark's own connections are authenticated with it as well."""
    liveness_timeout: Duration = Field(default="60 s", validate_default=True)
    """``/livez`` fails when the main loop has not come by for so long. The loop does not wait for batches, so a slow batch does not kill the pod."""

    @property
    def control_url(self) -> str:
        """The one address that answers everything, as a tool on the same machine asks it."""
        control = self.control
        host = self.host if control.host is None or control.port is None else control.host
        known = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104 - what is listened on, not asked
        return f"{'http' if control.certificate_file is None else 'https'}://{known}:{self.port if control.port is None else control.port}"


class Logging(_Section):
    """What is logged and how."""

    level: Level = "INFO"
    """Least severe level that is written."""
    format: Literal["json", "console"] = "json"
    """``json``: one object per line, for collectors; ``console``: for eyes."""
    levels: dict[str, Level] = {}
    """Levels of single loggers, by name."""


class Watchdog(_Section):
    """Keeps each query below its latency bound by shedding as little as possible. Bounds, ``safety`` and shedders are written in the queries."""

    enabled: bool = True
    """Whether anything is shed for a latency bound; false gives exactly the unshed results, however late. What a query's ``limits`` keep from being made, or from staying, goes all the same."""
    interval: Duration = Field(default="0 s", validate_default=True)
    """Shortest time between two decisions; 0 decides after every micro-batch."""
    cost_window: int = Field(default=64, ge=4)
    """Micro-batches that the cost model (fixed cost, cost per event read and handed over, the queries' own work) is fitted to. More is steadier, fewer follows changes faster."""
    smallest_step: float = Field(default=0.02, gt=0, le=0.5)
    """Drop ratios are rounded up to multiples of this: steady ratios make reports comparable."""
    largest_fall: float = Field(default=0.1, gt=0, le=1)
    """How much a ratio may fall per decision while the rate is near what can be done without shedding, or half of the way where that is more; where the rate is clearly below, shedding ends at once."""
    catch_up: Literal["shed", "complete"] = "shed"
    """After an outage, of queries that do not say themselves: ``shed`` keeps the bound for new events at the cost of the backlog, ``complete`` sheds nothing until all that waits can be done within the bound; that needs capacity to spare."""
    warm_up_batches: int = Field(default=5, ge=0)
    """Micro-batches after a start that are not judged: the JVM compiles, and their times say nothing about later ones."""


class Learning(_Section):
    """Models of shedders that the application learns itself, from what is in its input topics, in a process of its own beside the stream. A query with a model in ``queries.models`` is left alone."""

    enabled: bool = True
    """Whether the application learns models of shedders itself; false leaves queries without a model in ``queries.models`` to shed at random. ``cep models learn`` works either way."""
    every: Duration = Field(default="10 m", validate_default=True, ge=1000)
    """How often the application looks for queries without a model, and for models that no longer fit what comes."""
    first: Duration = Field(default="1 m", validate_default=True, ge=100)
    """How long after the start it first looks for queries without a model."""
    again: Duration = Field(default="6 h", validate_default=True, ge=1000)
    """A model that is older is judged beside a new one, though what comes looks as it did: what becomes of events may have changed. The better one is used."""
    events: int = Field(default=200_000, ge=2_000)
    """Newest records of each stream that a query's model learns from, and is judged by; more learn rarer matches and take longer."""
    niceness: int = Field(default=19, ge=0, le=19)
    """Niceness of the learning process: 19 takes what is left over, 0 as much as the driver."""


class Selection(_Section):
    """In which order selection (ASC) evaluates attributes; what it finds does not depend on it, what it costs does."""

    mode: Literal["macro", "hybrid", "fixed"] = "macro"
    """``macro`` finds one order for all events from samples of them; ``hybrid`` adds shortcuts from single regions of values, which saves evaluations but costs more than it saves unless queries are clustered; ``fixed`` keeps the initial order (the type, then attributes with most tests)."""
    period: int = Field(default=100_000, gt=0)
    """Events of a stream after which the share that no query wants is looked at again (lambda of the paper)."""
    threshold: float = Field(default=0.01, ge=0)
    """Relative change of that share that makes the order be found anew (mu of the paper); 0 does so after every period. Finding it costs the driver up to a tenth of a second, with shortcuts up to two tenths."""
    sample: int = Field(default=2_000, gt=0)
    """Events whose regions tasks report when an order is to be found; more is steadier and makes longer reports."""


class Audit(_Section):
    """What is measured about the loss by shedding."""

    sample: float = Field(default=0.01, ge=0, le=1)
    """Share of partitions (by hash of their key, for some windows' time each) whose events are matched once more with nothing shed, between batches, to estimate recall: no composite event waits for it. Partitions that have much of what a query finds are looked at up to eight times as often while it sheds, and weigh the less. 1 % costs 1 % of capacity, some three times as much where few partitions have most and the query sheds, and never more than 8 %: what is more is forgotten, and intervals are wider."""
    memory_bytes: int = Field(default=16 << 20, ge=1 << 16)
    """Of events that are remembered for a window's time, per bucket and query group, so that composite events can be judged while a query sheds. What no longer fits is forgotten, the oldest first, and composite events that met it are unverifiable."""
    seed: int = 0
    """Seed of every hash that decides about shedding and sampling: equal seeds, equal choices."""


class Heartbeat(_Section):
    """Makes time pass when all input is silent."""

    enabled: bool = True
    """Whether the driver writes heartbeats; without them the last negations wait for the next event."""
    interval: Duration = Field(default="1 s", validate_default=True)
    """Distance of two heartbeats while the input is silent and something waits; every one costs a micro-batch."""


class Settings(_Section):
    """The whole application."""

    application: str = Field(default="cep", pattern=r"^[a-z][a-z0-9-]*$")
    """Name of this application: ``service.name`` in logs, beginning of group and transactional ids."""
    kafka: Kafka = Kafka()
    """Brokers."""
    schema_registry: SchemaRegistry = SchemaRegistry()
    """Schema registry."""
    streams: dict[str, Stream] = {}
    """Input streams by the name that queries use in ``from``."""
    queries: Queries = Queries()
    """Queries."""
    topics: Topics = Topics()
    """Output topics."""
    checkpoint: Checkpoint = Checkpoint()
    """Recovery."""
    delivery: Delivery = Delivery()
    """Delivery guarantee."""
    spark: Spark = Spark()
    """Execution."""
    http: Http = Http()
    """Health, metrics, directives."""
    logging: Logging = Logging()
    """Logs."""
    watchdog: Watchdog = Watchdog()
    """Load shedding."""
    selection: Selection = Selection()
    """Order of selection."""
    audit: Audit = Audit()
    """Quality under shedding."""
    learning: Learning = Learning()
    """Models of shedders."""
    heartbeat: Heartbeat = Heartbeat()
    """Time without input."""

    @model_validator(mode="after")
    def _topics_unambiguous(self) -> Settings:
        owners: dict[str, str] = {}
        for name, stream in sorted(self.streams.items()):
            for topic in stream.topics:
                if topic in owners:
                    raise ValueError(f'topic "{topic}" belongs to the streams {owners[topic]} and {name}; a topic feeds one stream')
                owners[topic] = name
        own = {self.topics.late, self.topics.dead_letters, self.topics.audit, self.topics.timeouts, self.topics.heartbeat}
        clash = sorted(own & set(owners))
        if clash:
            raise ValueError(f'topic "{clash[0]}" is both read as a stream and written by the application')
        return self

    @property
    def shadow_group(self) -> str | None:
        """The consumer group that offsets are committed to for lag tools; None where there is to be none."""
        group, prefix = self.kafka.shadow_group, self.kafka.group_id_prefix
        default = f"{prefix}-{self.application}" if prefix else self.application
        return (group.name or default) if group.enabled else None

    @property
    def source_topics(self) -> tuple[str, ...]:
        """All topics that are read, sorted, the heartbeat's included. A checkpoint gives them numbers that last (`app.pipeline.numbers`)."""
        heartbeat = (self.topics.heartbeat,) if self.heartbeat.enabled else ()
        return tuple(sorted({topic for stream in self.streams.values() for topic in stream.topics}.union(heartbeat)))

    def comparable(self) -> dict[str, Any]:
        """Plain values, for telling what has changed; not those of secrets that have a file: they may change while the application runs."""

        def plain(section: BaseModel) -> dict[str, Any]:
            found = {name: plain(value) if isinstance(value, BaseModel) else value for name, value in section}
            return {name: value for name, value in found.items() if found.get(f"{name}_file") is None}

        return plain(self)

    def stream_of(self, topic: str) -> str | None:
        """The stream that a topic feeds."""
        return next((name for name, stream in self.streams.items() if topic in stream.topics), None)


def load_settings(path: Path | None, env: Mapping[str, str]) -> Settings:
    """Reads the settings file, lays the environment over it, and checks everything.

    Args:
        path: YAML file; None for the environment and the defaults alone. Relative paths in the file are relative to its folder.
        env: environment variables, see `app.config.sources.read_environment`.

    Raises:
        ConfigurationError: with all findings, each at its line or at its variable.
    """
    written = Sourced({})
    if path is not None:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError([Finding(f"cannot read the settings file {path}: {error}")]) from error
        written = read_yaml(text, str(path))
    sourced = merge(written, read_environment(env, Settings, written.values))
    try:
        settings = Settings.model_validate(sourced.values)
    except ValidationError as error:
        findings = [_finding(detail, sourced) for detail in error.errors(include_url=False, include_input=False)]
        raise ConfigurationError(
            sorted(findings, key=lambda finding: (finding.location is not None, finding.location or _NOWHERE))
        ) from error
    return settings if path is None else _rooted(settings, path.parent)


_NOWHERE = Location("", 0, 0)
WORDS = {
    "tuple_type": "a list is wanted, as [a, b]",
    "dict_type": "a mapping is wanted, as {a: b}",
    "model_type": "a mapping is wanted, as {a: b}",
}
"""Instead of pydantic's words for Python's kinds."""


def _finding(detail: Any, sourced: Sourced) -> Finding:
    path = tuple(detail["loc"])
    location = sourced.place(path)
    dotted = ".".join(str(part) for part in path)
    if detail["type"] == "extra_forbidden":
        return Finding(f'unknown setting "{dotted}"', location, _did_you_mean(path))
    message = WORDS.get(detail["type"], str(detail["msg"])).removeprefix("Value error, ")
    return Finding(f"{dotted}: {message[:1].lower()}{message[1:]}" if dotted else message, location or _anywhere(sourced))


def _anywhere(sourced: Sourced) -> Location | None:
    first = min(sourced.places.values(), default=None)
    return None if first is None else Location(first.path, 1, 1)


def _did_you_mean(path: tuple[str | int, ...]) -> str | None:
    section: Any = Settings
    for part in path[:-1]:
        if isinstance(section, type) and issubclass(section, BaseModel) and part in section.model_fields:
            annotation = section.model_fields[str(part)].annotation
            section = Stream if annotation == dict[str, Stream] else annotation
    if not (isinstance(section, type) and issubclass(section, BaseModel)):
        return None
    known = list(section.model_fields)
    close = difflib.get_close_matches(str(path[-1]), known, n=1)
    return f'did you mean "{close[0]}"?' if close else f"known here: {', '.join(known)}"


def _rooted(settings: Settings, folder: Path) -> Settings:
    """Makes the paths of queries and schemas relative to the settings file absolute to it."""
    streams = {
        name: stream.model_copy(update={"schemas": tuple(folder / p for p in stream.schemas)}) for name, stream in settings.streams.items()
    }
    models = None if settings.queries.models is None else folder / settings.queries.models
    queries = settings.queries.model_copy(update={"paths": tuple(folder / p for p in settings.queries.paths), "models": models})
    return settings.model_copy(update={"streams": streams, "queries": queries})
