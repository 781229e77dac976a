"""Options that choose a policy, and what its replies depend on."""

from __future__ import annotations

import os

from contextlib import AsyncExitStack, asynccontextmanager
from functools import wraps
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from ipistate.cli.exits import (
    RefusedInputError,
    UnusableVariableError,
    refusing,
)
from ipistate.cli.files import read_rows, rereadable
from ipistate.cli.options import FILE, FiniteRange
from ipistate.cli.own_policy import PolicyName, opened_policy
from ipistate.clients import check_environment
from ipistate.errors import EnvironmentVariableError, SchemaError
from ipistate.kernel import EMPTY_OBJECT, JsonObject
from ipistate.policies import (
    POLICIES,
    REASONING_MEMBERS,
    Api,
    Endpoint,
    Patience,
    PolicyOptionError,
    PolicyOptions,
    Sampling,
    Scripts,
    api_key,
)
from ipistate.scoring import Trajectories, by_row


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from ipistate.agents import Policy
    from ipistate.rollouts import TaskFile

SCRIPTED: Final = frozenset({"careful", "gullible"})
_ENDING: Final = ".trajectories.jsonl"


@attrs.frozen(kw_only=True)
class Chosen:
    """A policy as the options name it."""

    name: str
    seed: int
    trajectories: Path | None
    endpoint: Endpoint | None

    def trajectories_of(self, tasks: Path) -> Path:
        """Return the file of trajectories: the one that is named, or the tasks' own."""
        return self.trajectories or tasks.with_name(f"{tasks.stem}{_ENDING}")

    def fingerprint(self, tasks: Path) -> JsonObject:
        """Return what the policy's replies depend on beside the seed; no secrets."""
        if self.name in SCRIPTED:
            path = self.trajectories_of(tasks)
            if not path.is_file():
                message = (
                    f"{path}: there are no reference trajectories; name their file with "
                    "--trajectories, or take another policy"
                )
                raise RefusedInputError(message)
            with refusing(str(path)):
                digest = sha256(path.read_bytes()).hexdigest()
            return JsonObject({"trajectories_sha256": digest})
        if self.endpoint is None:
            return EMPTY_OBJECT
        # A server of models may come back elsewhere; it is the model that counts.
        told = self.endpoint.to_document()
        return JsonObject({name: told[name] for name in told if name != "url"})

    def options(self, tasks: TaskFile) -> PolicyOptions:
        """Read what the policy is made from.

        Raises:
            RefusedInputError: The trajectories cannot be read, or are not those of the
                tasks.
        """
        scripts = None
        if self.name in SCRIPTED:
            path = self.trajectories_of(tasks.path)
            scripts = Scripts.of(tasks.tasks(), _read(path, len(tasks)))
        return PolicyOptions(scripts=scripts, seed=self.seed, endpoint=self.endpoint)

    @asynccontextmanager
    async def opened(
        self, options: PolicyOptions, repeats: int
    ) -> AsyncGenerator[Sequence[Policy]]:
        """Open the policy; repeats of a row are drawn from different seeds."""
        async with AsyncExitStack() as stack:
            several = repeats if self.name == "random" else 1
            seeds = range(self.seed, self.seed + several)
            made = [
                opened_policy(self.name, attrs.evolve(options, seed=seed))
                for seed in seeds
            ]
            yield [await stack.enter_async_context(one) for one in made]


def _read(path: Path, rows: int) -> dict[int, Trajectories]:
    ways = [*read_rows(str(path), Trajectories.from_json)]
    try:
        return by_row(ways, rows)
    except SchemaError as error:
        message = f"{path}: {error}; these are the trajectories of another task file"
        raise RefusedInputError(message) from error


def with_policy(function: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options that choose a policy, as one ``Chosen``."""

    @click.option(
        "--policy",
        metavar=f"[{'|'.join(POLICIES)}|MODULE:NAME]",
        type=PolicyName(),
        required=True,
        help="The policy of the agent: careful and gullible play reference trajectories, "
        "random calls tools at random, openai asks a model. MODULE:NAME is one of your "
        "own, or what makes it.",
    )
    @click.option(
        "--trajectories",
        metavar="FILE",
        type=FILE,
        help="Reference trajectories for careful and gullible. Without it, those beside "
        "the tasks: tasks.trajectories.jsonl for tasks.jsonl.",
    )
    @click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="For random: chooses its calls; each repeat of a row has the next seed.",
    )
    @click.option("--model-url", help="For openai: the endpoint's base, up to /v1.")
    @click.option("--model", help="For openai: the model's name.")
    @click.option(
        "--model-api",
        type=click.Choice([str(one) for one in Api]),
        default=str(Api.RESPONSES),
        show_default=True,
        help="For openai: the form in which the endpoint takes conversations.",
    )
    @click.option(
        "--model-api-key-env",
        metavar="NAME",
        help="For openai: environment variable with the API key. Without it no key is "
        "sent.",
    )
    @click.option(
        "--temperature",
        type=FiniteRange(min=0),
        help="For openai: sampling temperature; without it the one of the row.",
    )
    @click.option(
        "--top-p",
        type=FiniteRange(0, 1),
        help="For openai: nucleus sampling; without it the one of the row.",
    )
    @click.option(
        "--max-output-tokens",
        type=click.IntRange(min=1),
        help="For openai: longest reply; without it the limit of the row.",
    )
    @click.option(
        "--model-timeout",
        metavar="SECONDS",
        type=FiniteRange(min=0, min_open=True),
        default=Patience().total,
        show_default=True,
        help="For openai: how long one try may take.",
    )
    @click.option(
        "--model-tries",
        type=click.IntRange(min=1),
        default=Patience().tries,
        show_default=True,
        help="For openai: how many times a reply is asked for at most.",
    )
    @click.option(
        "--model-concurrency",
        type=click.IntRange(min=1),
        default=16,
        show_default=True,
        help="For openai: most requests at a time.",
    )
    @click.option(
        "--send-reasoning-as",
        type=click.Choice(REASONING_MEMBERS),
        help="For openai with --model-api chat: send the model's reasoning back in this "
        "member of its messages, for endpoints that require it. Without it none is sent.",
    )
    @wraps(function)
    def called(
        *,
        policy: str,
        trajectories: Path | None,
        seed: int,
        model_url: str | None,
        model: str | None,
        model_api: str,
        model_api_key_env: str | None,
        temperature: float | None,
        top_p: float | None,
        max_output_tokens: int | None,
        model_timeout: float,
        model_tries: int,
        model_concurrency: int,
        send_reasoning_as: str | None,
        **given: Any,
    ) -> None:
        endpoint = None
        if policy == "openai":
            sampling = Sampling(
                temperature=temperature,
                top_p=top_p,
                max_output_tokens=max_output_tokens,
            )
            patience = Patience(total=model_timeout, tries=model_tries)
            endpoint = _endpoint(
                model_url,
                model,
                model_api_key_env,
                api=Api(model_api),
                sampling=sampling,
                patience=patience,
                concurrency=model_concurrency,
                reasoning_as=send_reasoning_as,
            )
        if trajectories is not None:
            trajectories = rereadable(trajectories)
        chosen = Chosen(
            name=policy, seed=seed, trajectories=trajectories, endpoint=endpoint
        )
        function(chosen, **given)

    return called


def _endpoint(
    url: str | None, model: str | None, variable: str | None, **settings: Any
) -> Endpoint:
    if not url or not model:
        raise click.UsageError("--policy openai needs --model-url and --model")
    if settings["reasoning_as"] and settings["api"] is not Api.CHAT:
        message = "--send-reasoning-as is for --model-api chat; the other API has items"
        raise click.UsageError(message)
    try:
        key = None if variable is None else api_key(variable, os.environ)
        endpoint = Endpoint(url=url, model=model, key=key, **settings)
        check_environment(endpoint.url)
    except PolicyOptionError as error:
        raise click.UsageError(str(error)) from error
    except EnvironmentVariableError as error:
        raise UnusableVariableError(error.message) from error
    return endpoint
