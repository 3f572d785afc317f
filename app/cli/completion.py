"""``cep completion``: what makes a shell complete commands and options."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer._completion_shared import get_completion_script


class Shell(StrEnum):
    """Shells that can be taught."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")]) -> None:
    """Print the script that completes commands and options: `eval "$(cep completion bash)"` in the shell's start-up file."""
    print(get_completion_script(prog_name="cep", complete_var="_CEP_COMPLETE", shell=shell))
