"""The digests of staged tokens, byte for byte."""

from __future__ import annotations

import hashlib
import struct

from collections.abc import Callable
from random import Random
from typing import Any

import attrs
import pytest

from ipistate import JsonObject, SchemaError
from ipistate.capture import StagedCall, chain_hash, cumulative_hash, extras_digest


GOLDEN = StagedCall(
    rollout_id="rollout-1",
    model_call_id="call-1",
    parent_call_id="parent-1",
    mode="token_in",
    prev_len=3,
    tokens=(10, 11),
    mask=(0, 1),
    logprobs=(0, -0.25),
    weight_version=7,
    extras=JsonObject({"routed_experts": [[[1, 2]], [[3, 4]]]}),
    chain_hash=bytes.fromhex("11" * 32),
    cumulative_hash=bytes.fromhex("22" * 32),
)


def test_the_golden_vector() -> None:
    """The one record whose digests were recorded elsewhere."""
    extras = "032024e899456be6e9a78c6d0399c5112d2ca7fa18d4ea9cf0d8cb7d0094f3a3"
    digest = "cdd62002cf93637646f8501ae816eada76e315885219455f53a09dd5a86580f2"

    assert (extras, digest) == (
        extras_digest(GOLDEN.extras).hex(),
        GOLDEN.digest().hex(),
    )
    assert (2, 5) == (GOLDEN.delta_len, GOLDEN.cum_len)


class Naive:
    """The same digests, fed piece by piece and written straight from the text."""

    def __init__(self, name: str) -> None:
        self.hash = hashlib.sha256(name.encode())

    def u64(self, number: int) -> Naive:
        """Add an unsigned integer."""
        self.hash.update(struct.pack(">Q", number))
        return self

    def raw(self, data: bytes) -> Naive:
        """Add bytes as they are."""
        self.hash.update(data)
        return self

    def text(self, text: str) -> Naive:
        """Add a text with its length."""
        return self.u64(len(text.encode())).raw(text.encode())

    def ids(self, tokens: Any) -> Naive:
        """Add token ids with their number."""
        self.u64(len(tokens))
        for token in tokens:
            self.u64(token)
        return self

    def floats(self, numbers: Any) -> Naive:
        """Add numbers of four bytes with their number."""
        self.u64(len(numbers))
        for number in numbers:
            self.raw(struct.pack(">f", number))
        return self

    def extra(self, value: Any) -> Naive:
        """Add a value of the extras."""
        if value is None:
            return self.raw(b"N")
        if isinstance(value, bool):
            return self.raw(b"B").raw(bytes([value]))
        if isinstance(value, int):
            return self.raw(b"I").raw(struct.pack(">q", value))
        if isinstance(value, float):
            return self.raw(b"F").raw(struct.pack(">d", value))
        if isinstance(value, str):
            return self.raw(b"S").text(value)
        if isinstance(value, list):
            self.raw(b"L").u64(len(value))
            for item in value:
                self.extra(item)
            return self
        self.raw(b"D").u64(len(value))
        for name in sorted(value, key=lambda one: one.encode()):
            self.text(name).extra(value[name])
        return self

    def bytes(self) -> bytes:
        """Return the digest."""
        return self.hash.digest()


def naive_call(call: StagedCall, extras: Any) -> bytes:
    """Return the digest of a call, with a length before each of its lists."""
    naive = Naive("nemo-gym-staging-call-v2").raw(bytes([3, 2, 1]))
    naive.text(call.rollout_id).text(call.model_call_id)
    parent = call.parent_call_id
    naive.raw(b"\0") if parent is None else naive.raw(b"\1").text(parent)
    naive.text(call.mode)
    count = len(call.tokens)
    for number in (call.prev_len, count, call.prev_len + count, call.weight_version):
        naive.u64(number)
    naive.u64(8 + 8 * count).ids(call.tokens)
    naive.u64(8 + 4 * count).floats(call.mask)
    naive.u64(8 + 4 * count).floats(call.logprobs)
    naive.raw(naive_extras(extras))
    return naive.raw(b"\1" + call.chain_hash + b"\1" + call.cumulative_hash).bytes()


def naive_extras(extras: Any) -> bytes:
    """Return the digest of extras."""
    return Naive("nemo-gym-staging-extras-v1").raw(b"\1").extra(extras).bytes()


def some_extras(random: Random, depth: int = 0) -> Any:
    """Draw a value of the extras."""
    leaves: list[Any] = [None, True, False, random.randint(-(2**63), 2**63 - 1)]
    leaves += [random.uniform(-9, 9), 0.5, "é😀", "", "x" * random.randint(0, 9)]
    if depth > 2 or random.random() < 0.4:
        return random.choice(leaves)
    size = random.randint(0, 3)
    if random.random() < 0.5:
        return [some_extras(random, depth + 1) for _ in range(size)]
    names = random.sample(["a", "b", "é", "z", "😀", "", "ab"], size)
    return {name: some_extras(random, depth + 1) for name in names}


def some_call(random: Random) -> tuple[StagedCall, dict[str, Any]]:
    """Draw a call, and its extras as plain data."""
    count = random.randint(0, 9)
    extras = {f"e{n}": some_extras(random) for n in range(random.randint(0, 3))}
    call = StagedCall(
        rollout_id=random.choice(["r", "é-r", "r-a3"]),
        model_call_id=f"call-{random.random()}",
        parent_call_id=random.choice([None, "", "call-0"]),
        mode=random.choice(["text", "token_in"]),
        prev_len=random.randint(0, 2**40),
        tokens=tuple(random.randint(0, 2**32) for _ in range(count)),
        mask=tuple(random.choice([0, 1]) for _ in range(count)),
        logprobs=tuple(random.uniform(-20, 0) for _ in range(count)),
        weight_version=random.randint(0, 2**63),
        extras=JsonObject(extras),
        chain_hash=random.randbytes(32),
        cumulative_hash=random.randbytes(32),
    )
    return call, extras


def test_10000_records_against_another_implementation() -> None:
    """Calls, extras, chains and prefixes; a seed reproduces them."""
    random = Random(11)
    for _ in range(10_000):
        call, extras = some_call(random)
        assert naive_call(call, extras) == call.digest()
        assert naive_extras(extras) == extras_digest(call.extras)
        prefix = Naive("nemo-gym-staging-prefix-v2").ids(call.tokens).bytes()
        assert prefix == cumulative_hash(call.tokens)
        parent = random.choice([None, call.chain_hash])
        chain = Naive("nemo-gym-staging-chain-v1")
        chain.raw(b"\0" if parent is None else b"\1" + parent)
        assert chain.ids(call.tokens).bytes() == chain_hash(parent, call.tokens)


def test_every_member_counts() -> None:
    """Two calls that differ in one member have different digests."""
    changes: list[dict[str, Any]] = [
        {"rollout_id": "rollout-2"},
        {"model_call_id": "call-2"},
        {"parent_call_id": None},
        {"mode": "text"},
        {"prev_len": 4},
        {"tokens": (11, 10)},
        {"mask": (1, 1)},
        {"logprobs": (0, -0.5)},
        {"weight_version": 8},
        {"extras": JsonObject()},
        {"chain_hash": bytes(32)},
        {"cumulative_hash": bytes(32)},
    ]
    digests = {attrs.evolve(GOLDEN, **change).digest() for change in changes}

    assert len(changes) == len(digests - {GOLDEN.digest()})


@pytest.mark.parametrize(
    "digest",
    [
        lambda: extras_digest(JsonObject({"a": [2**63]})),
        lambda: extras_digest(JsonObject({"a": [-(2**63) - 1]})),
        lambda: extras_digest(JsonObject({"a": "\ud800"})),
        lambda: cumulative_hash([-1]),
        lambda: chain_hash(None, [2**64]),
        lambda: attrs.evolve(GOLDEN, rollout_id="\udc00").digest(),
        lambda: attrs.evolve(GOLDEN, prev_len=-9).digest(),
        lambda: attrs.evolve(GOLDEN, logprobs=(0, 1e300)).digest(),
    ],
)
def test_what_no_field_of_a_digest_can_hold(digest: Callable[[], object]) -> None:
    """It has a code, and no other bytes are taken for it."""
    with pytest.raises(SchemaError) as caught:
        digest()

    assert "not_digestible" == caught.value.code
