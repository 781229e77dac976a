"""Checkpoints: the state's wire form, its records, a pure control machine, files.

How they work together::

    events ──▶ machine.handle(participant, event, now) ──▶ (participant, actions)

A server's shell turns requests, ends of background work and time into ``events``, and
performs the ``actions``: admit a request, reply to a call, write a directory. The machine
does neither I/O nor waiting.

* The *participant* is the machine's whole state: a ``gate`` and a ``control`` part.
* The *gate* belongs to the data plane: which requests are inside, which wait, and to
  which episode each session is bound (``gate``, ``requests``, ``bindings``).
* The *control* part belongs to the controller: the open checkpoint, its lease, the
  replies it has given. One module for each operation, ``fencing`` for what all share.
* The *holder* is the operation that has the lock because it waits for something outside;
  the calls after it queue.
* The *cut* is what a commit writes: the sessions' states at one moment, taken once.
* Live states stay with the shell. The machine knows session ids, and a state only as an
  opaque value with a codec (``state``), on its way into or out of ``records``.
* ``directory`` is the only module that touches files.
"""

from ipistate.protocol.actions import (
    STATUS_OF,
    Action,
    Admit,
    Export,
    Free,
    Install,
    Read,
    Refuse,
    Reply,
    SetTimer,
    StopWrite,
    Sweep,
    Write,
    refusal,
)
from ipistate.protocol.control import handle
from ipistate.protocol.episode import SAFE_NAME, EpisodeId
from ipistate.protocol.events import (
    ControlCalled,
    ControlDropped,
    Event,
    Exported,
    Freed,
    IdleFound,
    ReadEnded,
    RequestArrived,
    RequestEnded,
    SessionsMade,
    Tick,
    WriteEnded,
    WriteStopped,
)
from ipistate.protocol.operations import MAX_IDS, OPERATIONS, Call, ControlBody
from ipistate.protocol.participant import (
    ParticipantState,
    Phase,
    Settings,
    start,
    status,
)
from ipistate.protocol.records import (
    KIND,
    EncodedStates,
    Manifest,
    Restorable,
    SessionRecord,
    read_manifest,
    read_record,
)
from ipistate.protocol.session_id import (
    MAX_SESSION_ID,
    check_session_id,
    is_session_id,
)


__all__ = [
    "KIND",
    "MAX_IDS",
    "MAX_SESSION_ID",
    "OPERATIONS",
    "SAFE_NAME",
    "STATUS_OF",
    "Action",
    "Admit",
    "Call",
    "ControlBody",
    "ControlCalled",
    "ControlDropped",
    "EncodedStates",
    "EpisodeId",
    "Event",
    "Export",
    "Exported",
    "Free",
    "Freed",
    "IdleFound",
    "Install",
    "Manifest",
    "ParticipantState",
    "Phase",
    "Read",
    "ReadEnded",
    "Refuse",
    "Reply",
    "RequestArrived",
    "RequestEnded",
    "Restorable",
    "SessionRecord",
    "SessionsMade",
    "SetTimer",
    "Settings",
    "StopWrite",
    "Sweep",
    "Tick",
    "Write",
    "WriteEnded",
    "WriteStopped",
    "check_session_id",
    "handle",
    "is_session_id",
    "read_manifest",
    "read_record",
    "refusal",
    "start",
    "status",
]
