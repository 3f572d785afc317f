# syntax=docker/dockerfile:1
# The one image of driver and executors. Built here by `build-image`, elsewhere by docker, podman or kaniko; no step needs
# a heredoc or a second image. ops/decisions/0013 says why it is as it is.
#
# Both images are tags on purpose: a release pins them, --build-arg PYTHON_IMAGE=docker.io/library/python@sha256:...
ARG PYTHON_IMAGE=docker.io/library/python:3.11-slim-bookworm

# ---- base: what build and runtime share, so that the virtual environment finds the same interpreter in both
FROM ${PYTHON_IMAGE} AS base
# hadolint ignore=DL3008  # Debian removes superseded versions from its mirrors: a pinned one would not build next month
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends tini \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log
ENV JAVA_HOME=/opt/java

# ---- java: a runtime of the modules that Spark, its libraries and `jcmd` use; no compiler. 90 MB instead of 260 with Debian's packages
FROM base AS java
# hadolint ignore=DL3008
RUN mkdir -p /usr/share/man/man1 \
 && apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends openjdk-17-jdk-headless binutils \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
RUN jdk="$(dirname "$(dirname "$(readlink -f /usr/bin/javac)")")" \
 && "$jdk/bin/jlink" --compress=2 --no-header-files --no-man-pages --output "$JAVA_HOME" --add-modules \
java.se,jdk.attach,jdk.charsets,jdk.crypto.cryptoki,jdk.crypto.ec,jdk.httpserver,jdk.incubator.vector,jdk.jcmd,jdk.jfr,jdk.management,\
jdk.management.agent,jdk.management.jfr,jdk.naming.dns,jdk.net,jdk.nio.mapmode,jdk.random,jdk.sctp,jdk.security.auth,jdk.security.jgss,\
jdk.unsupported,jdk.xml.dom,jdk.zipfs \
 && cp -L /etc/ssl/certs/java/cacerts "$JAVA_HOME/lib/security/cacerts" \
 && "$JAVA_HOME/bin/java" -Xshare:dump

# ---- venv: the virtual environment; a stage of its own, so that it is copied again only when the lock changes
FROM java AS venv
# Plots of `cep evaluate` want matplotlib and what it brings, 95 MB; --build-arg PLOTS=yes keeps it
ARG PLOTS=no
WORKDIR /opt/cep
COPY requirements.lock ./
# pip stays outside of the environment (--python): nothing in the image can install packages into it.
# Bytecode is made below, of what is imported: of everything it has 100 MB
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 -m venv --without-pip /opt/venv \
 && python3 -m pip --python /opt/venv/bin/python install --disable-pip-version-check --no-input --no-compile --require-hashes --only-binary :all: \
      --no-binary pyspark -r requirements.lock
COPY ops/image/slim.sh ops/image/
RUN PLOTS=${PLOTS} ops/image/slim.sh "$(/opt/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"

# ---- jars: the Java artifacts, by the project's own bootstrap
FROM venv AS jars
# Jars for a checkpoint in S3, 13 MB; --build-arg S3=no leaves them out
ARG S3=yes
# Only the bootstrap: a change elsewhere must not fetch the jars again
COPY app/__init__.py app/errors.py app/
COPY app/bootstrap app/bootstrap
RUN CEP_CACHE=/opt/cep/cache /opt/venv/bin/python -c 'from app.bootstrap.artifacts import connector_jars; print(*connector_jars(), sep="\n")' \
 && if [ "$S3" = yes ]; then CEP_CACHE=/opt/cep/cache /opt/venv/bin/python -c 'from app.bootstrap.artifacts import s3_jars; print(*s3_jars(), sep="\n")'; fi \
 && rm -rf /opt/cep/cache/artifacts/*.lock

# ---- runtime
FROM base AS runtime
ARG VERSION=0.1.0
ARG GIT_COMMIT=unknown
# One CPU level at build and run time: numba's cache holds machine code, and every other level compiles it again.
# On arm64: --build-arg NUMBA_CPU_NAME=generic --build-arg NUMBA_CPU_FEATURES=+neon
ARG NUMBA_CPU_NAME=x86-64-v3
ARG NUMBA_CPU_FEATURES=+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe
LABEL org.opencontainers.image.title="cep" \
      org.opencontainers.image.description="Complex event processing on Spark Structured Streaming and Kafka" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${GIT_COMMIT}"
# a numeric user for runAsNonRoot, with a name for Hadoop's login
RUN useradd --uid 10001 --gid 0 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin cep \
 && mkdir -p /etc/cep/queries /etc/cep/kafka /etc/cep/registry /var/lib/cep /var/lib/spark \
 && chmod 0775 /var/lib/cep /var/lib/spark \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} +
COPY --from=java /opt/java /opt/java
COPY --from=venv /opt/venv /opt/venv
COPY --from=jars /opt/cep/cache /opt/cep/cache
# CEP_BOOTSTRAP: the environment is whole, though not all of the lock is in it. No bytecode is written at run time: the root is read-only
ENV PATH=/opt/venv/bin:/opt/java/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    PYTHONPATH=/opt/cep \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    SPARK_HOME=/opt/venv/lib/python3.11/site-packages/pyspark \
    SPARK_CONF_DIR=/opt/cep/ops/image/spark \
    PYSPARK_PYTHON=/opt/venv/bin/python \
    PYSPARK_DRIVER_PYTHON=/opt/venv/bin/python \
    SPARK_USER=cep \
    HADOOP_USER_NAME=cep \
    CEP_BOOTSTRAP=off \
    CEP_GIT_COMMIT=${GIT_COMMIT} \
    CEP_CACHE=/opt/cep/cache \
    NUMBA_CPU_NAME=${NUMBA_CPU_NAME} \
    NUMBA_CPU_FEATURES=${NUMBA_CPU_FEATURES} \
    NUMBA_CACHE_DIR=/tmp/kernels
WORKDIR /opt/cep
COPY ops/image ops/image
COPY pyproject.toml requirements.lock ./
COPY schemas schemas
COPY queries queries
COPY shedding shedding
COPY app app
# spark's own settings are left out: a folder on the class path that is not empty ends the archive's making
RUN NUMBA_CACHE_DIR=/opt/cep/kernels python ops/image/warm_kernels.py \
 && SPARK_CONF_DIR=/nowhere NUMBA_CACHE_DIR=/opt/cep/kernels python -c 'from app.bootstrap.class_archive import class_archive, make_class_archive; make_class_archive(); raise SystemExit(class_archive() is None)' \
 && python -c 'import os; from app.bootstrap.class_archive import driver_class_path; print(os.pathsep.join(map(str, driver_class_path())))' >cache/classes/path \
 && NUMBA_CACHE_DIR=/opt/cep/kernels python ops/image/bytecode.py \
 && python ops/image/bill_of_materials.py --python "$(dirname "${SPARK_HOME}")" --jars "${SPARK_HOME}/jars" cache/artifacts --java "${JAVA_HOME}" >bom.json \
 && printf '#!/opt/venv/bin/python\nfrom app.cli.main import main\n\nmain()\n' >/usr/local/bin/cep \
 && chmod 0755 /usr/local/bin/cep \
 && chmod -R a+rX /opt/cep
USER 10001:0
STOPSIGNAL SIGTERM
EXPOSE 8080 8081
HEALTHCHECK NONE
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/cep/ops/image/entrypoint.sh"]
CMD ["python", "-m", "app", "--help"]
