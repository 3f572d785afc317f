"""The one way to a module that is imported only when it is needed: a command's, or a part of a command that few of its calls come to.

Modules are of this floor, so what the floors below import, and when, stays as it is written there. Nowhere else is anything imported late (`tests/architecture/test_imports.py`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

PLAIN: dict[str, Any] = {"add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": None}
"""How typer shows all commands."""


@dataclass(frozen=True, slots=True)
class Later:
    """A function, a group of commands or another value of a module, by name.

    Attributes:
        module: a module of `app.cli`, as `shedding.train`.
        name: of the value.
    """

    module: str
    name: str

    def get(self) -> Any:
        """The value; imports its module."""
        return getattr(import_module(f"app.cli.{self.module}"), self.name)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Imports the function's module and calls it."""
        return self.get()(*arguments, **named)


@dataclass(frozen=True, slots=True)
class Command:
    """A command as it is listed: its module, which is named as it is, is imported when it is called.

    Attributes:
        name: of the command, of its module, and of the function or group in it.
        room: where its module is; "" for the hall.
        help: the first sentence of the function's docstring, or the group's help.
        kernels: when those that it runs are compiled, if that was not done yet. first: before it begins. checked: by itself, when it has told
            whatever is wrong without them. none: it runs none, or only in some of its calls.
    """

    name: str
    room: str
    help: str
    kernels: Literal["none", "first", "checked"] = "none"

    @property
    def later(self) -> Later:
        """The function or group."""
        return Later(f"{self.room}.{self.name}".removeprefix("."), self.name)

    def load(self) -> Any:
        """The command as typer knows it."""
        found = self.later.get()
        if isinstance(found, typer.Typer):
            return get_command(found)
        alone = typer.Typer(**PLAIN)
        alone.command(self.name)(found)
        return get_command(alone)


def listed_help(value: Any) -> str:
    """What a command's line in the list should say: the first sentence of its docstring, or a group's help."""
    text = (value.info.help if isinstance(value, typer.Typer) else inspect.getdoc(value)) or ""
    return " ".join(text.split("\n\n")[0].split())


def group_of(commands: Sequence[Command], prepare: Callable[[Command], None]) -> type[TyperGroup]:
    """The class of a group of these commands.

    Args:
        commands: as they are listed.
        prepare: called before a command with kernels.
    """
    by_name = {command.name: command for command in commands}

    class LaterGroup(TyperGroup):
        """Lists, completes and suggests commands by their names alone."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.commands = {command.name: TyperCommand(command.name, help=command.help, rich_markup_mode=None) for command in commands}

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            """The command that was called, whole."""
            name, _, rest = super().resolve_command(ctx, args)
            command = by_name[str(name)]
            if command.kernels != "none" and not ctx.resilient_parsing and "--help" not in rest:
                prepare(command)
            return name, command.load(), rest

    return LaterGroup
