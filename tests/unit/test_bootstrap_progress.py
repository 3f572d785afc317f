"""What set-up prints."""

import sys

import pytest

from app.bootstrap import progress
from app.bootstrap.progress import Progress, step


def on_a_terminal(monkeypatch):
    """Standard error is a terminal that can be written over; to be called in the test, whose standard error is not that of its fixtures."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_lines_of_a_terminal_are_cleared_before_one_that_stays(monkeypatch, capsys):
    on_a_terminal(monkeypatch)
    with step("packages"):
        pass
    assert capsys.readouterr().err.split("\n")[-2].startswith("\r\x1b[K✓ packages")


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_plain_text_where_it_is_asked_for(monkeypatch, capsys, name, value):
    on_a_terminal(monkeypatch)
    monkeypatch.setenv(name, value)
    with step("packages"):
        pass
    assert not {"\r", "\x1b"} & set(capsys.readouterr().err)


def test_files_and_pipes_get_no_control_characters(capsys):
    with step("packages"):
        pass
    assert not {"\r", "\x1b"} & set(capsys.readouterr().err)


def test_a_share_is_shown_as_a_bar():
    shown = Progress("kernels")
    shown.tell_share(5, 10)
    assert shown.line().startswith("kernels: [==========          ] 5 of 10")
    shown.finish("✓", "")


def test_steps_side_by_side_share_one_line():
    one, other = Progress("packages"), Progress("kernels")
    try:
        assert [one, other] == progress._active
    finally:
        one.finish("✓", "")
        other.finish("✓", "")
    assert progress._active == []
