#!/bin/sh
# The image's entrypoint: `executor`, as Spark passes it to executor pods, or any other command.
set -eu

# Kernels are compiled in the build. numba takes a cache only from a folder that it can write to (it tries), so a read-only
# image would compile everything again in every worker: give it a copy in the writable /tmp instead.
if [ ! -d "$NUMBA_CACHE_DIR" ] && [ -d /opt/cep/kernels ]; then
    cp -R /opt/cep/kernels "$NUMBA_CACHE_DIR.$$" && mv "$NUMBA_CACHE_DIR.$$" "$NUMBA_CACHE_DIR"
fi

if [ "${1:-}" != executor ]; then
    if [ -n "${CEP_EXECUTOR_SELECTOR:-}" ]; then # the chart's word that this is the driver, and the only one
        python /opt/cep/ops/image/remove_old_executors.py "$CEP_EXECUTOR_SELECTOR"
    fi
    exec "$@"
fi

# pip's pyspark brings no executor launcher. SPARK_JAVA_OPT_0..n hold one JVM option each, blanks included, in this order.
set --
n=0
while eval "[ -n \"\${SPARK_JAVA_OPT_$n+x}\" ]"; do
    eval "set -- \"\$@\" \"\$SPARK_JAVA_OPT_$n\""
    n=$((n + 1))
done
# An executor asks the driver for its settings before it has any, and Spark reads a secret from a file only where the master is Kubernetes
set -- "$@" -Dspark.master=k8s://driver
# Executors copy spark.jars into their working directory, and the image's is read-only.
mkdir -p /tmp/work && cd /tmp/work
# The archive of classes holds for one beginning of the class path: the driver's, which holds all of Spark
jars="$SPARK_HOME/jars/*"
if [ "${CEP_CLASS_ARCHIVE:-}" != off ] && [ -f /opt/cep/cache/classes/path ]; then
    jars=$(cat /opt/cep/cache/classes/path)
    for archive in /opt/cep/cache/classes/*.jsa; do set -- "$@" "-XX:SharedArchiveFile=$archive"; done
fi
# Spark tells executors a SPARK_CONF_DIR that does not exist here
classpath="$jars:/opt/cep/ops/image/spark${SPARK_CLASSPATH:+:$SPARK_CLASSPATH}${SPARK_EXTRA_CLASSPATH:+:$SPARK_EXTRA_CLASSPATH}"
exec "$JAVA_HOME/bin/java" "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$classpath" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
