"""A deterministic simulator of participants, clients, controllers, disks and crashes."""
