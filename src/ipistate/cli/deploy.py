"""``ipistate deploy``: the servers of a deployment, each a process of its own."""

from __future__ import annotations

import os
import tomllib

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ipistate.cli.exits import LEGEND, Exit, RefusedInputError, refusing
from ipistate.cli.files import read_file
from ipistate.cli.interrupt import run_interruptibly
from ipistate.cli.options import token_options
from ipistate.cli.secret import write_secret
from ipistate.cli.terminal import note, stdout_console, table
from ipistate.cli.texts import shown
from ipistate.cli.tokens import secret_in, secret_of
from ipistate.deploy import (
    DeploymentPlan,
    DeploymentProcesses,
    ServerFailedError,
    ServerOrder,
    from_gym,
    is_gym_mapping,
    plan_of,
    serve_order,
)
from ipistate.errors import SchemaError
from ipistate.kernel import JsonObject, decode, freeze
from ipistate.server import LogForm, LogLevel, configure


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ipistate.deploy import ServerProcess

MAX_BYTES: Final = 2**22
TOKEN_FILE: Final = "control-token"  # noqa: S105 - the name of a file


@click.command("deploy", epilog=LEGEND)
@click.argument("file", metavar="FILE")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("deployment"),
    show_default=True,
    help="Where logs and ledgers go, and the token if none is given.",
)
@click.option(
    "--only",
    metavar="NAME",
    help="Serve this one server of FILE, in this very process: for one container each.",
)
@click.option("--check", is_flag=True, help="Read FILE, show the servers, start none.")
@token_options("the participants' control planes")
def command(
    *,
    file: str,
    directory: Path,
    only: str | None,
    check: bool,
    token_file: Path | None,
    token_env: str | None,
) -> None:
    """Start the servers of a deployment, and stop them in order.

    FILE is TOML or JSON. Each server has a name, a kind (resources, model, agent,
    environment, relay, worker, llama, or scripted: a model that plays the built-in rows),
    a port, and the servers that it calls, by name or URL. NeMo Gym's resolved
    configuration is read as well, for who is where.

    \b
      [servers.ipi]
      kind = "resources"
      port = 8001
      [servers.policy_model]
      kind = "model"
      port = 8002
      upstream = "http://127.0.0.1:8000/v1"
      [servers.agent]
      kind = "agent"
      port = 8003
      resources = "ipi"
      model = "policy_model"

    All answer when the table is shown. Ctrl-C or SIGTERM stops callers before callees.
    A server that ends by itself ends the deployment, with exit code 1.

    \b
      ipistate deploy deployment.toml
      ipistate deploy deployment.toml --check
      ipistate deploy deployment.toml --only agent --token-file token.txt
    """
    plan = read_plan(file)
    if check:
        _show(plan, {})
        return
    given = secret_of(token_file, token_env)
    try:
        if only is not None:
            _serve(plan, only, directory, given)
            return
        token = given or _token(directory)
        code = run_interruptibly(_started(plan, directory, token))
    except KeyboardInterrupt:
        note("deployment stopped")
        return
    except ServerFailedError as error:
        raise RefusedInputError(str(error)) from error
    click.get_current_context().exit(code)


def read_plan(file: str) -> DeploymentPlan:
    """Read a deployment from TOML or JSON.

    Raises:
        RefusedInputError: It cannot be read, or cannot be.
    """
    data = read_file(file, most=MAX_BYTES)
    with refusing(file):
        document = _document(data)
        if is_gym_mapping(document):
            document = from_gym(document)
        return plan_of(document)


def _document(data: bytes) -> JsonObject:
    if data.lstrip().startswith(b"{"):
        document = decode(data)
    else:
        try:
            document = freeze(tomllib.loads(data.decode()))
        except ValueError as error:
            raise SchemaError("invalid_toml", str(error)) from error
    if not isinstance(document, JsonObject):
        raise SchemaError("wrong_type", "a deployment is an object")
    return document


def _token(directory: Path) -> str:
    path = directory / TOKEN_FILE
    with refusing(str(path)):
        directory.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            write_secret(path)
            note(f"wrote a token for the control planes to {shown(str(path))}")
    return secret_in(path)


def _serve(plan: DeploymentPlan, name: str, directory: Path, token: str | None) -> None:
    if name not in plan.servers:
        known = ", ".join(plan.servers)
        raise click.UsageError(f"--only {name}: there are {known}")
    if token is None:
        message = "--only needs the deployment's token: --token-file or --token-env"
        raise click.UsageError(message)
    server = plan.servers[name]
    configure(LogForm.TEXT, LogLevel.WARNING)
    serve_order(ServerOrder.of(name, plan.kind(name), server, directory, token))


async def _started(plan: DeploymentPlan, directory: Path, token: str) -> int:
    async with DeploymentProcesses(plan, directory, token) as processes:
        _show(plan, processes.running)
        note(f"deployment: all answer; process {os.getpid()} keeps them")
        ended = await processes.ended()
        note(f"{ended} has ended by itself; see {shown(str(directory))}/logs")
    return Exit.FINDINGS


def _show(plan: DeploymentPlan, running: Mapping[str, ServerProcess]) -> None:
    lines = [
        [name, plan.kind(name), plan.servers[name].url, *_pid(running.get(name))]
        for name in plan.in_order()
    ]
    heads = ["server", "kind", "address", *(["process"] if running else [])]
    stdout_console().print(table(heads, lines))


def _pid(process: ServerProcess | None) -> list[int]:
    return [] if process is None else [process.pid]
