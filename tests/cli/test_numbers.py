"""Options that take a number: none of them takes what is no number, or has no end."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from ipistate.cli.app import cli


NUMERIC = (click.types.FloatParamType, click.types.IntParamType)


def commands(
    command: click.Command, context: click.Context, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Visit every verb, and the verbs of verbs."""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, context, (*path, name))
    else:
        yield " ".join(path), command


OPTIONS = [
    pytest.param(command, param, id=f"{name} {param.opts[0]}")
    for name, command in commands(cli, click.Context(cli))
    for param in command.params
    if isinstance(param.type, NUMERIC)
]


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "NaN", "1e999", "Infinity"])
@pytest.mark.parametrize(("command", "param"), OPTIONS)
def test_a6_numeric_options_take_finite_numbers(
    command: click.Command, param: click.Parameter, text: str
) -> None:
    """A6: each numeric option of each verb refuses these, as it refuses any wrong text."""
    with pytest.raises(click.BadParameter):
        param.process_value(click.Context(command), text)


def test_a6_the_options_are_found() -> None:
    """A6: the test above sees the options that the fault was found with."""
    seen = {str(one.id) for one in OPTIONS}

    assert {"run --temperature", "run --top-p", "run --model-timeout"} <= seen
    assert "checkpoint commit --seconds" in seen
