#!/bin/sh
# What Kubernetes runs in an executor before SIGTERM when executors are decommissioned (preStop): Spark's process is told
# by SIGPWR, takes no new task and ends when it has handed on what it has. Then the pod's grace period begins to count no more.
# PROC is another /proc in tests. Exit code 0 always: the hook must not fail the deletion.
proc=${PROC:-/proc}
for folder in "$proc"/[0-9]*; do
    [ "$(cat "$folder/comm" 2>/dev/null)" = java ] || continue
    pid=${folder##*/}
    kill -s PWR "$pid" 2>/dev/null || continue
    while kill -0 "$pid" 2>/dev/null; do sleep 0.2; done
done
exit 0
