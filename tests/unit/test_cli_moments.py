"""Moments of the command line that no clock has."""

import pytest

from app.cli.inputs.moments import moment_ms, time_ms
from app.errors import CepError


@pytest.mark.parametrize("digits", [18, 23, 5000])
@pytest.mark.parametrize("read", [moment_ms, time_ms])
def test_a_number_of_too_many_digits_is_no_moment(read, digits):
    with pytest.raises(CepError, match=r"--since: \"9+\" is no moment\nhint: write"):
        read("9" * digits, "--since")


def test_so_long_ago_that_there_was_no_clock_is_its_beginning():
    assert moment_ms("99999999999999999 w", "--since", 1_780_000_000_000) == 0
