"""What operates a process: settings, logs, metrics, the garbage collector."""
