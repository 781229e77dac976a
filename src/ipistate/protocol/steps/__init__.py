"""The steps of live episodes, for environments and for agents that take ``/run``.

* ``engine``: which episodes a checkpoint waits for, what it records of them, and when
  their tasks may go on; ``events`` go in, ``actions`` come out, ``transitions`` has the
  rules for one episode.
* ``single_turn`` and ``agent_run``: the two protocols as reducers. A state is what a
  checkpoint records; it says what to ask of other servers (``exchange``).
* ``episode_task``: one episode's task, which tells the engine what its reducer does.
* ``episode_records`` and ``boundaries``: all of that as lines of a checkpoint.
"""
