"""What a world is: immutable JSON values, a strict codec, schemas, ids, differences.

Everything here is pure: no clock, no randomness, no file, no network.
"""

from ipistate.kernel.alignment import first_difference
from ipistate.kernel.change import Change
from ipistate.kernel.codec import Adopt, decode, decode_as, encode, encode_checked
from ipistate.kernel.copies import (
    with_addition,
    with_element,
    with_member,
    with_members,
)
from ipistate.kernel.diff import Count, Diff, diff
from ipistate.kernel.environment import Environment
from ipistate.kernel.ids import derive_id
from ipistate.kernel.immutable import Immutable, Refusing, refuse_change
from ipistate.kernel.json_lines import json_line
from ipistate.kernel.limits import (
    INTEGER_BOUND,
    MAX_DEPTH,
    MAX_INTEGER_DIGITS,
    check_depth,
    concatenated,
    depth,
    is_array,
    is_object,
    whole_text,
)
from ipistate.kernel.migration import MigrationChain
from ipistate.kernel.misuse import listed, misused
from ipistate.kernel.rendering import render
from ipistate.kernel.repeated import repeated_members
from ipistate.kernel.schema import adopt_members, refuse, structure, unstructure
from ipistate.kernel.sharing import SharedParts
from ipistate.kernel.spelling import WRITES_FAST
from ipistate.kernel.summaries import (
    Representation,
    html_table,
    listing,
    record_summary,
    summarized,
    summary,
)
from ipistate.kernel.values import (
    EMPTY_ARRAY,
    EMPTY_OBJECT,
    JsonArray,
    JsonObject,
    JsonValue,
    as_json,
    freeze,
    identical,
    thaw,
    trusted_array,
    trusted_object,
)


__all__ = [
    "EMPTY_ARRAY",
    "EMPTY_OBJECT",
    "INTEGER_BOUND",
    "MAX_DEPTH",
    "MAX_INTEGER_DIGITS",
    "WRITES_FAST",
    "Adopt",
    "Change",
    "Count",
    "Diff",
    "Environment",
    "Immutable",
    "JsonArray",
    "JsonObject",
    "JsonValue",
    "MigrationChain",
    "Refusing",
    "Representation",
    "SharedParts",
    "adopt_members",
    "as_json",
    "check_depth",
    "concatenated",
    "decode",
    "decode_as",
    "depth",
    "derive_id",
    "diff",
    "encode",
    "encode_checked",
    "first_difference",
    "freeze",
    "html_table",
    "identical",
    "is_array",
    "is_object",
    "json_line",
    "listed",
    "listing",
    "misused",
    "record_summary",
    "refuse",
    "refuse_change",
    "render",
    "repeated_members",
    "structure",
    "summarized",
    "summary",
    "thaw",
    "trusted_array",
    "trusted_object",
    "unstructure",
    "whole_text",
    "with_addition",
    "with_element",
    "with_member",
    "with_members",
]
