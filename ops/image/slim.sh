#!/bin/sh
# Takes out of the image's virtual environment what the application can never reach: `slim.sh SITE-PACKAGES`.
# What is left runs everything of the README; ops/decisions/0013 has the sizes. Whole families go together: Spark asks every jar that is
# there for its data sources, so spark-hive without Hive would fail each of its look-ups.
set -eu
cd "$1"

# Spark Connect, its shell and Scala's compiler; RocksDB's state store (state is ours); Hive; Spark's machine learning and its algebra
rm -r pyspark/jars/connect-repl pyspark/examples
rm pyspark/jars/spark-connect_*.jar pyspark/jars/spark-repl_*.jar pyspark/jars/scala-compiler-*.jar pyspark/jars/jline-*.jar
rm pyspark/jars/rocksdbjni-*.jar
rm pyspark/jars/spark-hive*.jar pyspark/jars/derby*.jar pyspark/jars/datanucleus-*.jar pyspark/jars/libthrift-*.jar
find pyspark/jars -name 'hive-*.jar' ! -name 'hive-storage-api-*.jar' -delete # that one is ORC's
rm pyspark/jars/spark-mllib*.jar pyspark/jars/spark-graphx_*.jar pyspark/jars/breeze*.jar pyspark/jars/spire*.jar \
   pyspark/jars/cats-kernel_*.jar pyspark/jars/algebra_*.jar pyspark/jars/lapack-*.jar pyspark/jars/arpack*.jar

# Arrow's RPC, and what C++ programs compile against
rm -r pyarrow/include
find pyarrow -name '*flight*' -type f -delete

# tests of libraries
find . -type d -name tests -prune -exec rm -r {} +

# Spark's pandas and machine learning in Python; netty's libraries for other systems than this one
rm -r pyspark/pandas pyspark/ml pyspark/mllib
for jar in pyspark/jars/netty-*-osx-*.jar pyspark/jars/netty-*-windows-*.jar pyspark/jars/netty-*-linux-*.jar; do
    case "$jar" in
    *-linux-"$(uname -m | sed 's/aarch64/aarch_64/').jar") ;;
    *) rm "$jar" ;;
    esac
done

# symbols of libraries (those in *.libs were changed by auditwheel, and strip would break them)
find llvmlite pyarrow fastavro cryptography yaml numba -type f \( -name '*.so' -o -name '*.so.*' \) -exec strip --strip-unneeded {} +

# Plots, unless they are wanted
if [ "${PLOTS:-no}" != yes ]; then
    for name in matplotlib mpl_toolkits fontTools PIL pillow.libs kiwisolver contourpy pyparsing; do rm -r "$name"; done
    rm -rf pylab.py cycler matplotlib-*.dist-info fonttools-*.dist-info pillow-*.dist-info kiwisolver-*.dist-info contourpy-*.dist-info \
       pyparsing-*.dist-info cycler-*.dist-info
fi
