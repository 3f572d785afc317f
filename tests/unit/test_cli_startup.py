"""What a command does not need it does not import: each runs in a process of its own, which says what it has."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("confluent_kafka", "fastavro", "lark", "matplotlib", "numba", "numpy", "pandas", "pyarrow", "pyspark", "sklearn", "structlog")
ENTRANCE = f"""
import json, sys
try:
    sys.argv[0] = "cep"
    from app.cli.main import main
    main()
except SystemExit as end:
    assert not end.code, end.code
finally:
    loaded = sys.modules.get("shedding.lazy_kernel")
    ready = [one.__name__ for one in loaded.DECLARED if one.overloads] if loaded else []
    print(json.dumps([[name for name in {HEAVY} if name in sys.modules], len(ready)]), file=sys.stderr)
"""
EVENTS = [
    {"type": "ShelfReading", "time": 0, "tag_id": "T1", "store_id": 1, "shelf_id": 7, "exit_id": 1},
    {"type": "CounterReading", "time": 1, "tag_id": "T2", "store_id": 1, "shelf_id": 7, "exit_id": 1},
    {"type": "ExitReading", "time": 2, "tag_id": "T1", "store_id": 1, "shelf_id": 7, "exit_id": 1},
]
READING = {"fastavro", "lark"}
ENGINES = {"numba", "numpy", "pyarrow", *READING}


def run(*arguments: str, **environment: str) -> tuple[str, set[str], int]:
    """What a command printed, which heavy libraries it imported, and how many kernels it has machine code of."""
    done = subprocess.run(
        [sys.executable, "-c", ENTRANCE, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    imported, kernels = json.loads(done.stderr.splitlines()[-1])
    return done.stdout, set(imported), kernels


@pytest.mark.parametrize("arguments", [("--help",), ("version",), ("completion", "bash")], ids=" ".join)
def test_commands_about_commands_import_nothing_heavy(arguments):
    said, imported, kernels = run(*arguments)
    assert said
    assert (imported, kernels) == (set(), 0)


def test_a_stream_that_the_caller_closed_leads_nowhere():
    """A shell's ``>&-``; what is opened next does not stand in its place."""
    program = "import os, sys; from app.cli.main import _open_closed_streams as opening; opening(); print(1); sys.stdout.flush(); other = open(os.devnull); assert other.fileno() > 2"
    for closing in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        subprocess.run(
            ["sh", "-c", f'exec "$@" {closing}', "sh", sys.executable, "-c", program], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
        )


def test_commands_are_completed_without_their_modules():
    said, imported, kernels = run(_CEP_COMPLETE="complete_bash", COMP_WORDS="cep re", COMP_CWORD="1")
    assert said.split() == ["replay", "record", "reconcile"]
    assert (imported, kernels) == (set(), 0)


def test_options_of_a_command_are_completed():
    said, _, _ = run(_CEP_COMPLETE="complete_bash", COMP_WORDS="cep validate --st", COMP_CWORD="2")
    assert said.split() == ["--strict"]


def test_a_query_is_checked_without_arrays():
    said, imported, kernels = run("validate", "queries/shoplifting.yaml")
    assert "0 errors" in said
    assert imported <= READING
    assert kernels == 0


@pytest.mark.slow
@pytest.mark.parametrize("query", ["shoplifting", "price-run", "delayed-vehicles"])
def test_a_query_is_explained_without_engines(query):
    said, imported, kernels = run("explain", f"queries/{query}.yaml")
    assert query in said
    assert imported <= {"numpy", *READING}
    assert kernels == 0


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["asc", "code"])
def test_stages_of_engines_are_explained_with_them(stage):
    said, imported, _ = run("explain", "queries/shoplifting.yaml", "--stage", stage)
    assert said
    assert "numba" in imported


@pytest.mark.slow
def test_a_query_is_tested_by_its_engine_alone():
    said, imported, kernels = run("test", "queries/shoplifting.yaml")
    assert "0 failed" in said
    assert imported <= ENGINES
    assert 0 < kernels < 40


@pytest.mark.slow
def test_a_file_is_replayed_without_shedders_and_spark(tmp_path):
    events = tmp_path / "events.jsonl"
    events.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    said, imported, kernels = run("replay", "--queries", "queries/shoplifting.yaml", "--events", str(events))
    assert json.loads(said)["query"] == "shoplifting"
    assert imported <= ENGINES
    assert 0 < kernels < 40


KAFKA = {"confluent_kafka", "lark", "numpy", "pyarrow"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "needed"),
    [
        (("status",), set()),
        (("topics", "plan"), {"confluent_kafka", "lark"}),
        (("dlq", "ls"), {"confluent_kafka", "structlog"}),
        (("tail",), set()),
        (("doctor",), {*KAFKA, "fastavro", "numba", "structlog"}),
        (("checkpoint", "ls"), {*KAFKA, "fastavro", "numba", "structlog"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_operators_commands_begin_without_spark_and_what_learns_or_draws(command, needed):
    said, imported, kernels = run(*command, "--help")
    assert "Usage: cep" in said
    assert imported <= needed
    assert kernels == 0


@pytest.mark.slow
def test_operators_commands_and_their_options_are_completed():
    said, _, _ = run(_CEP_COMPLETE="complete_bash", COMP_WORDS="cep d", COMP_CWORD="1")
    assert said.split() == ["demo", "doctor", "dlq"]
    said, _, _ = run(_CEP_COMPLETE="complete_bash", COMP_WORDS="cep dlq re", COMP_CWORD="2")
    assert said.split() == ["replay"]
    said, _, _ = run(_CEP_COMPLETE="complete_bash", COMP_WORDS="cep tail --out", COMP_CWORD="2")
    assert said.split() == ["--output"]
