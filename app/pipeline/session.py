"""The Spark session: every setting with the measured reason for it (ops/bench/README.md)."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from app.bootstrap.artifacts import connector_jars, s3_jars
from app.bootstrap.class_archive import class_archive, driver_class_path
from app.bootstrap.java import find_java
from app.config.addresses import BucketAddress
from app.config.secret_files import derived, read_secret
from app.config.secret_variables import without_secrets
from app.config.settings import Settings
from app.config.task_token import token_file
from app.delivery.security import ALLOWED_URLS
from app.owners.keeper import SETTING, OwnerSlots
from app.pipeline.limits import ARROW_UNLIMITED

STOPPED_MS = 10_000
"""How long Spark may take to end what is cut off: `spark.stop_timeout` is over by then, and a pod has been asked to end for as long."""
MEMORY = "spark.driver.memory"
ARROW_BATCH = "spark.sql.execution.arrow.maxBytesPerBatch"
CHECKPOINT_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""WAL and commit 65 → 15 ms on local and PVC paths, 12 requests per file instead of 26 in S3; its rename is not atomic on paths, so one driver per checkpoint."""

FEW_COLLECTIONS = "-XX:MetaspaceSize=256m"
"""Spark's classes are some 150 MB. With Java's threshold the whole heap is collected whenever they have become a few dozen more, at last in the middle of the work."""
DRIVER_JVM = (
    # threads and collectors sized for few cores: the JVM shares them with the Python workers; its heap is as large as it may be from the start (0034)
    "-XX:+UseParallelGC -XX:ParallelGCThreads=2 "
    f"{FEW_COLLECTIONS} "
    # C2 takes a third of a core in the first minutes; so it compiles only what is ten times as hot as it asks for by itself, which catching up is at
    # once, and what waits for it is compiled without full profiles: p50/p95 from a cold start 274/469 → 244/404 ms
    "-XX:Tier3DelayOn=0 -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
LOCAL_FILES = {"fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem", "fs.file.impl.disable.cache": "true"}
"""Hadoop's class for local files with its permissions set by Java, not by a ``chmod`` process per file, of which a batch makes four: WAL and commit 29 → 3 ms.

For the session, whose queries' checkpoints get it: when Spark itself starts, it does not see the connector's jars yet. It has cached Hadoop's own class by then."""

REDACTED = "(?i)secret|password|passphrase|token|jaas|access[.]?key|ssl[.]key"
"""Values of settings and options with such names are not shown by Spark's UI, plans and logs."""
ENDINGS = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"
"""The logger that tells that a query has ended with an error."""


def own_settings(settings: Settings) -> dict[str, str]:
    """Spark settings that the application needs; `settings.spark.conf` wins over them."""
    memory = settings.spark.conf.get(MEMORY, "1g")
    conf = {
        "spark.app.name": settings.application,
        "spark.python.unix.domain.socket.enabled": "true",  # a Python stage 78 → 28 ms
        "spark.python.daemon.module": "app.pipeline.daemon",  # workers are forked with the stages imported
        "spark.sql.execution.arrow.maxRecordsPerBatch": "8192",
        ARROW_BATCH: str(ARROW_UNLIMITED),
        "spark.sql.adaptive.enabled": "false",  # would re-plan every micro-batch
        "spark.sql.streaming.numRecentProgressUpdates": "20",
        "spark.sql.streaming.minBatchesToRetain": "20",
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_MANAGER,
        "spark.sql.streaming.stopTimeout": str(min(settings.spark.stop_timeout, STOPPED_MS)),
        "spark.sql.session.timeZone": "UTC",
        "spark.redaction.regex": REDACTED,  # nothing secret is there; this is for what users add
        "spark.sql.redaction.options.regex": f"{REDACTED}|url",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        MEMORY: memory,
        "spark.log.level": "WARN",
        "spark.task.maxFailures": "4",
        "spark.locality.wait": "0s",  # topic partitions have no home; 3 s by default for an executor that was lost
        "spark.driver.extraJavaOptions": " ".join([DRIVER_JVM, f"-Xms{memory}", *archive_options(class_archive())]),
        "spark.driver.extraClassPath": os.pathsep.join(map(str, driver_class_path())),
    }
    if isinstance(settings.checkpoint.address, BucketAddress):
        conf |= s3_settings(settings.checkpoint.address, os.environ)
        conf["spark.driver.extraClassPath"] += "".join(os.pathsep + str(jar) for jar in s3_jars())  # behind what the archive holds
    if not one_process(settings):
        conf["spark.jars"] = ",".join(str(jar) for jar in connector_jars())  # for executors
        # one that has just come takes 20 s for its first task (ops/decisions/0032)
        conf |= {"spark.speculation": "true", "spark.speculation.quantile": "0.5", "spark.speculation.minTaskRuntime": "2s"}
        conf["spark.executor.extraJavaOptions"] = FEW_COLLECTIONS
    conf |= authentication(settings)
    if settings.kafka.security.mechanism == "OAUTHBEARER":
        for who in ("driver", "executor"):
            options = f"spark.{who}.extraJavaOptions"
            conf[options] = f"{conf.get(options, '')} -D{ALLOWED_URLS}={settings.kafka.security.oauth.token_endpoint_url}".strip()
    if settings.spark.master.startswith("local"):
        conf["spark.driver.host"] = "127.0.0.1"
        conf["spark.driver.bindAddress"] = "127.0.0.1"
    return conf


def one_process(settings: Settings) -> bool:
    """Whether the driver's JVM is the only one."""
    master = _asked_master(settings)
    return master == "local" or master.startswith("local[")


def with_users(own: Mapping[str, str], conf: Mapping[str, str]) -> dict[str, str]:
    """Own settings and the user's, which win; but a class path of theirs comes behind ours, without which there is no Kafka source."""
    path = "spark.driver.extraClassPath"
    joined = {path: own[path] + os.pathsep + conf[path]} if own.get(path) and conf.get(path) else {}
    return {**own, **conf, **joined}


def archive_options(archive: Path | None) -> list[str]:
    """Java's options for an archive of classes: session and first task 12 → 7 s on free cores."""
    return [f"-XX:SharedArchiveFile={archive}"] if archive else []


def encrypted(settings: Settings) -> bool:
    """Whether what processes of the application say to each other is encrypted."""
    asked = settings.spark.encryption
    return not _asked_master(settings).startswith("local") if asked == "auto" else asked == "on"


def authentication(settings: Settings) -> dict[str, str]:
    """Spark's own connections: who is let in, and whether they are encrypted. Standalone clusters have a secret of their own, which their operator sets."""
    master = _asked_master(settings)
    if not master.startswith(("local", "k8s")):
        return {}
    conf = {"spark.authenticate": "true"}  # with a local master Spark makes a secret for itself
    if master.startswith("k8s"):
        conf["spark.authenticate.secret.file"] = str(token_file(settings.http))  # else it would stand in the pods' environment
    if encrypted(settings):
        conf |= {"spark.network.crypto.enabled": "true", "spark.network.crypto.cipher": "AES/GCM/NoPadding"}
    return conf


def secret_conf(settings: Settings) -> dict[str, str]:
    """Spark settings that must not stand in the JVM's command line: with several JVMs on one machine Spark takes its secret from its settings only."""
    return {"spark.authenticate.secret": spark_secret(settings)} if _asked_master(settings).startswith("local-cluster") else {}


def spark_secret(settings: Settings) -> str:
    """Spark's secret, made of the application's."""
    return derived(read_secret(token_file(settings.http)), "cep: Spark").hex()


def owner_slots(settings: Settings) -> OwnerSlots:
    """The owners of an executor: one per core."""
    token, encryption = str(token_file(settings.http)), encrypted(settings)
    master = _asked_master(settings)
    if found := re.match(r"local(?:\[(\d+|\*)|$)", master):
        return OwnerSlots(token, (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1), local=True, encrypted=encryption)
    if found := re.match(r"local-cluster\[\s*\d+\s*,\s*(\d+)", master):
        return OwnerSlots(token, int(found[1]), local=True, encrypted=encryption)
    return OwnerSlots(token, int(settings.spark.conf.get("spark.executor.cores", "1")), encrypted=encryption)


def slots_of(spark: SparkSession) -> OwnerSlots:
    """The owners of each of a session's executors, as `start_session` told them."""
    return OwnerSlots.from_text(spark.sparkContext.getConf().get(f"spark.executorEnv.{SETTING}", "[]"))


def s3_settings(address: BucketAddress, env: Mapping[str, str]) -> dict[str, str]:
    """Spark settings for a checkpoint in S3. Only the driver touches it, so only the driver gets the jars (`own_settings`).

    Credentials are found where `app.storage` finds them: environment variables, the pod's role, profiles, the machine's role.

    Raises:
        SetupError: the jars are not in the cache and cannot be fetched.
    """
    conf = {
        "spark.hadoop.fs.s3a.aws.credentials.provider": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
        "spark.hadoop.fs.s3a.performance.flags": "*",  # a request less per file; what it does not check, nobody but Spark does there
    }
    if address.endpoint:
        conf["spark.hadoop.fs.s3a.endpoint"] = address.endpoint
        conf["spark.hadoop.fs.s3a.path.style.access"] = "true"
        conf["spark.hadoop.fs.s3a.connection.ssl.enabled"] = str(address.endpoint.startswith("https:")).lower()
    if region := address.region or env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION"):
        conf["spark.hadoop.fs.s3a.endpoint.region"] = region
    return conf


def start_session(settings: Settings) -> SparkSession:
    """Starts the JVM and the Spark context.

    Args:
        settings: of the application.

    Python workers run this interpreter and find this project whatever the working directory is.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    project = str(Path(__file__).resolve().parents[2])
    os.environ["PYTHONPATH"] = os.pathsep.join([project, *filter(None, [os.environ.get("PYTHONPATH")])])
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a pool per worker would outnumber the cores, and nothing here uses it
    os.environ["JAVA_HOME"] = str(find_java().home)
    master = _master(settings.spark.master)
    builder = SparkSession.builder.master(master)
    owners = {f"spark.executorEnv.{SETTING}": owner_slots(settings).to_text()}
    conf = with_users(own_settings(settings) | owners, settings.spark.conf)
    with without_secrets(os.environ):
        SparkContext._ensure_initialized(conf=_spark_conf({"spark.master": master, **conf}))  # noqa: SLF001 - the JVM, and no context yet
    for name, value in {**conf, **secret_conf(settings)}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    if not isinstance(settings.checkpoint.address, BucketAddress):  # there Hadoop's client of S3 would look for the class, and not see it
        for name, value in LOCAL_FILES.items():
            session.conf.set(name, value)
    _quieten(session)
    return session


def _spark_conf(conf: Mapping[str, str]) -> SparkConf:
    return SparkConf(loadDefaults=False).setAll(list(conf.items()))


def _quieten(session: SparkSession) -> None:
    """A query that ends is told by the driver, in words that people can use; Spark's own are a hundred lines of stack."""
    log4j: Any = session._jvm.org.apache.logging.log4j  # noqa: SLF001 - there is no other way to a single logger
    log4j.core.config.Configurator.setLevel(ENDINGS, log4j.Level.OFF)


def bound_arrow_batches(spark: SparkSession, settings: Settings, most_bytes: int) -> None:
    """Bounds what goes from JVM to Python at once (`app.pipeline.limits`), unless the settings do."""
    if ARROW_BATCH not in settings.spark.conf:
        spark.conf.set(ARROW_BATCH, str(most_bytes))


def _asked_master(settings: Settings) -> str:
    """The master that counts: one in the user's Spark settings wins."""
    return settings.spark.conf.get("spark.master", settings.spark.master)


def _master(master: str) -> str:
    """``local[n]`` gives up at a task's first failure; ``local[n,4]`` repeats it as a cluster does."""
    return master[:-1] + ",4]" if master.startswith("local[") and "," not in master else master
