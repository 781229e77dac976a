"""The kernel served over HTTP: a thin Starlette adapter (spec control-plane, 1 and 2).

Needs the ``server`` extra. ``create_app`` gives the application, ``run`` serves it.
"""
