"""The main job, shown: sessions that survive the death of their server.

Scripted agents play task rows over HTTP; the server is killed in the middle, a fresh one
restores the checkpoint, and every reply is compared with an uninterrupted run. Needs the
``cli`` extra; ``ipistate demo`` is its command.
"""
