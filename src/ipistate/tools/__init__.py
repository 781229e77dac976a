"""What agents can do: the nine domains, their 97 tools, and how a call is made.

A tool is a pure function from a world and arguments to a new world and a reply.
"""

from ipistate.tools.ecommerce import Order, Product, Refund, Ticket
from ipistate.tools.education import Course, FinancialAid, Grade, Student
from ipistate.tools.healthcare import Appointment, Patient
from ipistate.tools.hr import Candidate, Interview, Position
from ipistate.tools.insurance import (
    AdjusterNote,
    Claim,
    FraudFlag,
    InsurancePolicy,
    Payout,
)
from ipistate.tools.it_helpdesk import Article, Asset, Incident
from ipistate.tools.legal import BillingRecord, CaseFile, CourtSchedule, DocumentFiling
from ipistate.tools.logistics import (
    CustomsDeclaration,
    DeliverySchedule,
    InventoryItem,
    Shipment,
)
from ipistate.tools.real_estate import Client, InspectionReport, Property
from ipistate.tools.registry import Tool, function_definition, tool
from ipistate.tools.row import Row
from ipistate.tools.table import RECORDS, TOOLS
from ipistate.tools.tool_table import ToolTable, nearest, table_of
from ipistate.tools.transition import (
    ToolCall,
    ToolError,
    Transition,
    UnknownTool,
    call_tool,
    replay,
    world_after,
)


__all__ = [
    "RECORDS",
    "TOOLS",
    "AdjusterNote",
    "Appointment",
    "Article",
    "Asset",
    "BillingRecord",
    "Candidate",
    "CaseFile",
    "Claim",
    "Client",
    "Course",
    "CourtSchedule",
    "CustomsDeclaration",
    "DeliverySchedule",
    "DocumentFiling",
    "FinancialAid",
    "FraudFlag",
    "Grade",
    "Incident",
    "InspectionReport",
    "InsurancePolicy",
    "Interview",
    "InventoryItem",
    "Order",
    "Patient",
    "Payout",
    "Position",
    "Product",
    "Property",
    "Refund",
    "Row",
    "Shipment",
    "Student",
    "Ticket",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolTable",
    "Transition",
    "UnknownTool",
    "call_tool",
    "function_definition",
    "nearest",
    "replay",
    "table_of",
    "tool",
    "world_after",
]
