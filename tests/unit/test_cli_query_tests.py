"""``cep test`` without settings: what a query mentions and no line gives is null, not a mistake."""

from __future__ import annotations

from pathlib import Path

from app.cli.test import run_tests

QUERY = """
name: q
event: SEQ(A a, !(N n), B b)
where: "[k] AND a.x > 3 AND n.y = 2 AND b.z IS NOT NULL"
within: 1 m
return: {d: b.time - a.time, z: b.z, w: a.w}
tests:
  - name: the attributes y and w are in no line
    given: |
      0s A k=1 x=5
      1s N k=1
      2s B k=1 z=7
    expect: [{d: 2s, z: 7, w: ~}]
  - name: a null comparison is false
    given: |
      0s A k=1
      2s B k=1 z=7
    expect: []
"""


def test_attributes_that_no_line_of_a_test_gives_are_null(tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text(QUERY)
    assert [outcome.passed for outcome in run_tests([tmp_path])] == [True, True]
