"""Synthetic worlds and task rows of a chosen size, the same for the same seed.

Sizes are those of compact JSON. Records are dense, as in real task rows: some six short
members each. ``notes`` makes the texts longer and the records fewer.
"""

from __future__ import annotations

import json

from random import Random
from typing import Any


_SENTENCES = (
    "patient reports mild intermittent pain after exercise and was advised to rest "
    "follow up within two weeks blood pressure stable no acute distress continue the "
    "current medication review results with the attending physician allergies none "
    "known insurance confirmed appointment moved at the request of the family"
)
_WORDS = _SENTENCES.split()
_NAMES = ("Alice", "Bruno", "Chiara", "David", "Elena", "Farid", "Greta", "Hassan")
_CONDITIONS = ("hypertension", "asthma", "type 2 diabetes", "migraine", "arthritis")
_TESTS = ("HbA1c", "LDL", "creatinine", "haemoglobin", "TSH", "potassium")
DAY = "2025-04-15"


def text(random: Random, length: int) -> str:
    """Return about ``length`` characters of plain sentences."""
    words: list[str] = []
    size = 0
    while size < length:
        words.append(random.choice(_WORDS))
        size += len(words[-1]) + 1
    return " ".join(words).capitalize() + "."


def _name(random: Random) -> str:
    return f"{random.choice(_NAMES)} {random.choice(_NAMES)}son"


def _patient(random: Random, number: int, notes: int) -> dict[str, Any]:
    return {
        "patient_id": f"P{number:04}",
        "name": _name(random),
        "dob": f"{random.randint(1930, 2015)}-{random.randint(1, 12):02}-17",
        "conditions": random.sample(_CONDITIONS, random.randint(1, 3)),
        "medications": random.sample(_CONDITIONS, random.randint(0, 2)),
        "chart_notes": text(random, notes),
    }


def _appointment(random: Random, number: int) -> dict[str, Any]:
    return {
        "appointment_id": f"A{number:05}",
        "patient_id": f"P{random.randint(0, 99):04}",
        "date": DAY if random.random() < 0.5 else "2025-04-16",
        "time": f"{random.randint(8, 17):02}:30",
        "reason": text(random, 30),
        "status": "scheduled",
    }


def lab_result(random: Random) -> dict[str, Any]:
    """Return one laboratory result: a small record with a number in it."""
    return {
        "test": random.choice(_TESTS),
        "date": f"2025-03-{random.randint(1, 28):02}",
        "value": round(random.uniform(0.1, 200), 1),
        "unit": "mmol/L",
        "is_final": random.random() < 0.9,
    }


def _message(random: Random, number: int, notes: int) -> dict[str, Any]:
    return {
        "from": f"{random.choice(_NAMES).lower()}@clinic.example",
        "to": "frontdesk@clinic.example",
        "subject": text(random, 25),
        "body": text(random, notes),
        "is_read": number % 3 == 0,
    }


def clinic(size: int, seed: int = 1, notes: int = 120) -> dict[str, Any]:
    """Build a healthcare world of about ``size`` bytes as plain Python data.

    Args:
        size: Bytes of compact JSON.
        seed: Another one gives another world of the same kind.
        notes: Characters of each longer text.
    """
    random = Random(seed)
    world: dict[str, Any] = {
        "patients": {},
        "appointments": {},
        "messages": [],
        "prescriptions": {},
        "lab_results": {},
        "current_user": {
            "name": "Dr. Ines Larson",
            "role": "physician",
            "email": "ines@clinic.example",
        },
    }
    written, number = 0, 0
    while written < size:
        patient = _patient(random, number, notes)
        visits = [_appointment(random, 2 * number + k) for k in range(2)]
        results = [lab_result(random) for _ in range(random.randint(1, 3))]
        messages = [_message(random, number, notes)]
        world["patients"][patient["patient_id"]] = patient
        world["lab_results"][patient["patient_id"]] = results
        for visit in visits:
            world["appointments"][visit["appointment_id"]] = visit
        world["messages"] += messages
        written += len(compact([patient, visits, results, messages]))
        number += 1
    return world


def chart(size: int, seed: int = 1) -> dict[str, Any]:
    """Build a world with a patient, ``P0000``, whose record is one text of ``size``."""
    world = clinic(2_000, seed)
    world["patients"]["P0000"]["chart_notes"] = text(Random(seed), size)
    return world


def accented(size: int, seed: int = 1) -> dict[str, Any]:
    """Build a world of which ``P0000``'s notes are an eighth, not all of it ASCII."""
    world = clinic(size, seed)
    notes = text(Random(seed), size // 8).replace("e", "é")
    world["patients"]["P0000"]["chart_notes"] = notes
    return world


def laboratory(size: int, seed: int = 1) -> dict[str, Any]:
    """Build a world where ``P0000`` has ``size`` bytes of small laboratory results."""
    random = Random(seed)
    world = clinic(2_000, seed)
    one = len(compact(lab_result(random)))
    results = [lab_result(random) for _ in range(size // one)]
    world["lab_results"]["P0000"] = results
    return world


def task_row(world: dict[str, Any], rollout: int = 0) -> bytes:
    """Write the seed request that a trainer sends for one rollout of a task."""
    row = {
        "environment": world,
        "domain": "healthcare",
        "required_tools": ["get_patient_record"],
        "rollout_index": rollout,
    }
    return compact(row)


def compact(value: object) -> bytes:
    """Write compact UTF-8 JSON with the standard library."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
