"""JSON Schemas of the tools' parameters, by name: one meaning, one entry.

They describe what a model is expected to send; only strict arguments are checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final


if TYPE_CHECKING:
    from collections.abc import Mapping

_STRINGS: Final = {
    "additional_info": "Further information for the authorities.",
    "address": "Postal address.",
    "adjuster_id": "Id of the adjuster.",
    "admin_notes": "Internal notes.",
    "aid_id": "Id of the financial aid record.",
    "appointment_id": "Id of the appointment.",
    "article_id": "Id of the article.",
    "asset_id": "Id of the asset.",
    "assigned_to": "Who takes care of it.",
    "assignment_name": "Name of the assignment.",
    "attorney": "Name of the attorney.",
    "body": "Text of the message.",
    "candidate_id": "Id of the candidate.",
    "case_id": "Id of the case.",
    "case_type": "Type of the case.",
    "category": "Category, compared without regard to case.",
    "claim_id": "Id of the claim.",
    "claim_number": "Number of the claim.",
    "claim_type": "Type of the claim.",
    "client_id": "Id of the client.",
    "client_name": "Name of the client, or a part of it.",
    "comments": "Comments.",
    "content": "New content.",
    "course_code": "Code of the course.",
    "course_id": "Id of the course.",
    "court_name": "Name of the court.",
    "customer_id": "Id of the customer.",
    "date": "Date, as YYYY-MM-DD.",
    "date_of_loss": "Date of the loss, as YYYY-MM-DD.",
    "department": "Department.",
    "description": "Description.",
    "document_type": "Type of the document.",
    "dosage": "Dosage.",
    "email": "E-mail address.",
    "end_date": "Last date, as YYYY-MM-DD.",
    "eta": "Expected time of arrival.",
    "feedback": "Text of the feedback.",
    "file_path": "Where the document is stored.",
    "filing_date": "Date of the filing, as YYYY-MM-DD.",
    "filing_id": "Id of the filing.",
    "findings": "What the inspection found.",
    "flag_reason": "Why the claim is flagged.",
    "from_": "Sender.",
    "grader_comments": "Comments of the grader.",
    "hearing_type": "Type of the hearing.",
    "hs_code": "Harmonized System code of the goods.",
    "inspection_date": "Date of the inspection, as YYYY-MM-DD.",
    "inspector_name": "Name of the inspector.",
    "instructions": "How to take the medication.",
    "instructor_id": "Id of the instructor.",
    "interviewer_email": "E-mail address of the interviewer.",
    "inventory_id": "Id of the inventory item.",
    "investigator_id": "Id of the investigator.",
    "keyword": "Text to look for.",
    "keywords": "Text to look for, as one phrase.",
    "listing_date": "Date of the listing, as YYYY-MM-DD.",
    "location": "Location.",
    "major": "Major subject, or a part of its name.",
    "medication": "Name of the medication.",
    "method": "Method of payment.",
    "name": "Name, or a part of it.",
    "note": "Text of the note.",
    "note_text": "Text of the note.",
    "notes": "Text of the notes.",
    "order_id": "Id of the order.",
    "patient_id": "Id of the patient.",
    "policy_id": "Id of the policy.",
    "policyholder_name": "Name of the policyholder, or a part of it.",
    "position": "Title of the position.",
    "priority": "Priority.",
    "product_id": "Id of the product.",
    "property_id": "Id of the property.",
    "query": "Text to look for.",
    "reason": "Reason.",
    "recipient": "Who receives it.",
    "recommendations": "What the inspector recommends.",
    "refund_id": "Id of the refund.",
    "related_claim_id": "Id of the claim that it is about.",
    "report_id": "Id of the report.",
    "requirements": "What the position requires.",
    "reviewer_notes": "Notes of the reviewer.",
    "schedule": "When it takes place.",
    "schedule_id": "Id of the schedule entry.",
    "severity": "Severity.",
    "shipment_id": "Id of the shipment.",
    "sku": "Stock keeping unit.",
    "specialist_email": "E-mail address of the specialist.",
    "start_date": "First date, as YYYY-MM-DD.",
    "status": "Status.",
    "student_id": "Id of the student.",
    "subject": "Subject line.",
    "tag": "Tag of the asset, or a part of it.",
    "ticket_id": "Id of the ticket.",
    "time": "Time of day, as HH:MM.",
    "title": "Title.",
    "to": "Who receives it.",
    "type": "Type, compared without regard to case.",
    "warehouse_location": "Where in the warehouse it is.",
}

_NUMBERS: Final = {
    "adjustment": "What to add; negative to take away.",
    "amount": "Amount of money.",
    "amount_requested": "Amount of money asked for.",
    "bathrooms": "Number of bathrooms.",
    "bedrooms": "Number of bedrooms.",
    "credits": "Credits of the course.",
    "declared_value": "Declared value of the goods.",
    "hours": "Hours worked.",
    "max_price": "Highest price.",
    "max_score": "Highest possible score.",
    "min_price": "Lowest price.",
    "price": "Price.",
    "quantity": "Number of pieces.",
    "rate": "Price of an hour.",
    "rating": "Rating.",
    "score": "Score.",
    "stock_quantity": "Number of pieces in stock.",
    "threshold": "Quantity below which stock is low.",
}

_BOOLEANS: Final = {
    "billable": "Whether the client is charged.",
    "is_read": "Whether the message has been read.",
}

_LISTS: Final = {
    "recipients": "Who receives it, several at once.",
    "served_parties": "Parties that were served.",
}


def _glossary() -> dict[str, dict[str, Any]]:
    groups = {"string": _STRINGS, "number": _NUMBERS, "boolean": _BOOLEANS}
    entries: dict[str, dict[str, Any]] = {
        name: {"type": kind, "description": description}
        for kind, group in groups.items()
        for name, description in group.items()
    }
    for name, description in _LISTS.items():
        items = {"type": "string"}
        entries[name] = {"type": "array", "items": items, "description": description}
    # Published rows declare a text, and people write "95,000 EUR".
    salary = {"type": ["number", "string"], "description": "Salary of a year."}
    return {**entries, "salary": salary}


GLOSSARY: Final[Mapping[str, Mapping[str, Any]]] = _glossary()
