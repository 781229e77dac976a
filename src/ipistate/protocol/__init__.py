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
