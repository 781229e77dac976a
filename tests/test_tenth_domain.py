"""A domain outside the package: made, served and held to every law."""

from __future__ import annotations

import attrs
import pytest

from hypothesis import given

from ipistate.testing import LAWS, scenarios, world_machine
from ipistate.tools import table_of, tool
from ipistate.tools.row import Row
from ipistate.tools.world import create, look_up, record, table, update


@attrs.frozen(kw_only=True)
class Plant(Row):
    """A row of ``plants``."""

    plant_id: str
    name: str
    liters: float | None = None


def add_plant(world, name):
    """Add a plant."""
    return create(world, "plants", ("plant_id", "PL-"), record(name=name))


def get_plant(world, plant_id):
    """Read a plant's record."""
    return world, look_up(table(world, "plants"), plant_id, "Plant")


def water_plant(world, plant_id, liters=1):
    """Water a plant."""
    where = ("plants", "Plant", plant_id)
    return update(world, where, {"liters": liters}, f"Watered {plant_id}.")


RECORDS = {"plants": Plant}
TOOLS = table_of(
    [
        tool(add_plant, "garden", writes=["plants"]),
        tool(get_plant, "garden", reads=["plants"]),
        tool(water_plant, "garden", writes=["plants"]),
    ]
)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@given(scenario=scenarios(RECORDS, TOOLS))
def test_garden(law, scenario):
    """Every law holds for the tools of the garden."""
    law(scenario)


TestGarden = world_machine(RECORDS, TOOLS).TestCase
