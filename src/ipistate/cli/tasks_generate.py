"""``ipistate tasks generate``: task rows and their reference trajectories, drawn."""

from __future__ import annotations

import re

from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click

from rich.progress import MofNCompleteColumn

from ipistate.cli.exits import LEGEND
from ipistate.cli.output_files import check_new, check_writable, output_file_or_pipe
from ipistate.cli.progress import bar
from ipistate.cli.terminal import amount, note
from ipistate.generate import DEFAULT_SIZE, DOMAINS, LARGEST, SMALLEST, generate
from ipistate.kernel import json_line


_SIZE: Final = re.compile(r"(\d{1,9})(k?)(?:(?:-|\.\.)(\d{1,9})(k?))?", re.IGNORECASE)
_SUFFIX: Final = ".jsonl"


def _size(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, int]:
    found = _SIZE.fullmatch(value.strip())
    if found is None:
        message = f"{value!r} is no size; write 8k or 2k-50k"
        raise click.BadParameter(message, ctx, param)
    low = _bytes(found[1], found[2])
    high = low if found[3] is None else _bytes(found[3], found[4])
    if not SMALLEST <= low <= high <= LARGEST:
        span = f"{SMALLEST // 1000}k to {LARGEST // 1000}k, the smaller number first"
        raise click.BadParameter(f"{value!r}: a world has {span}", ctx, param)
    return low, high


def _bytes(digits: str, unit: str) -> int:
    return int(digits) * (1000 if unit else 1)


def _domains(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    names = dict.fromkeys(name.strip() for name in value.split(","))
    if list(names) == ["all"]:
        return tuple(DOMAINS)
    for name in names:
        if name not in DOMAINS:
            known = f"write all, or some of {', '.join(DOMAINS)}"
            message = f"no domain is called {name!r}; {known}"
            raise click.BadParameter(message, ctx, param)
    return tuple(names)


@click.command("generate", epilog=LEGEND)
@click.option(
    "--domain",
    "domains",
    callback=_domains,
    metavar="NAMES",
    default="all",
    show_default=True,
    help="Domains, separated by commas; rows take them in turn.",
)
@click.option(
    "--count",
    type=click.IntRange(1, 10_000_000),
    default=90,
    show_default=True,
    help="How many rows to generate.",
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Chooses everything; equal options and seed give equal bytes.",
)
@click.option(
    "--size",
    callback=_size,
    metavar="SIZE",
    default="-".join(f"{one // 1000}k" for one in DEFAULT_SIZE),
    show_default=True,
    help="How large a world is as JSON, as 8k or 2k-50k; 2k to 500k.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    help="Write the rows to this file; - writes them to standard output.",
)
@click.option(
    "--trajectories",
    metavar="FILE",
    help="Write the reference trajectories to this file. Without it their file is "
    "named after that of the rows: tasks.trajectories.jsonl for tasks.jsonl.",
)
@click.option("--force", is_flag=True, help="Write files anew that exist already.")
def command(
    *,
    domains: tuple[str, ...],
    count: int,
    seed: int,
    size: tuple[int, int],
    output: str,
    trajectories: str | None,
    force: bool,
) -> None:
    """Generate task rows and their reference trajectories.

    Row n depends on the seed, n and the other options, so a longer file begins with the
    shorter one. The people in a row are invented; addresses use reserved domains. A file
    appears when all of it is written.

    \b
      ipistate tasks generate --count 900 --seed 7 -o tasks.jsonl
      ipistate tasks generate --domain hr,legal --size 2k-50k -o tasks.jsonl --force
      ipistate tasks generate --count 10 -o - | ipistate tasks stats -
    """
    ways = trajectories or beside(output)
    if ways == output:
        raise click.UsageError("--trajectories and --output are one file; name two")
    for written in (output, ways):
        if written and written != "-":
            check_writable(written)
            if not force:
                check_new(written)
    with ExitStack() as files:
        put_task = files.enter_context(output_file_or_pipe(output))
        put_way = files.enter_context(output_file_or_pipe(ways)) if ways else None
        rows = generate(domains, count, seed, size=size)
        with bar(MofNCompleteColumn()) as progress:
            shown = progress.add_task("generate", total=count)
            for row in rows:
                put_task(json_line(row.task.to_json()) + b"\n")
                if put_way is not None:
                    put_way(json_line(row.trajectories.to_json()) + b"\n")
                progress.advance(shown)
    places = " and ".join(one for one in (output, ways) if one and one != "-")
    if places:
        note(f"wrote {amount(count, 'row')}: {places}")


def beside(name: str) -> str | None:
    """Name the file of reference trajectories that belongs to a task file.

    None for standard output and for pipes, beside which there is no place.
    """
    file = Path(name)
    if name == "-" or (file.exists() and not file.is_file()):
        return None
    return f"{name.removesuffix(_SUFFIX)}.trajectories{_SUFFIX}"
