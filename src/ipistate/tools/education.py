"""Education: students, courses, grades and aid (docs/reference/tools.md, section 4.4)."""

from __future__ import annotations

from typing import Final

import attrs

from ipistate.kernel import JsonObject, JsonValue
from ipistate.tools.arguments import given
from ipistate.tools.filters import Test, ci, ci_field_first, equals, select, sub
from ipistate.tools.registry import tool
from ipistate.tools.row import Records, Row
from ipistate.tools.semantics import Absent, field, find, lower, search, text, walk
from ipistate.tools.world import (
    Change,
    assign,
    create,
    join,
    look_up,
    not_found,
    put_back,
    record,
    revise,
    table,
)


@attrs.frozen(kw_only=True)
class Student(Row):
    """A row of ``students``."""

    student_id: str
    first_name: str
    last_name: str
    email: str | None = None
    major: str | None = None
    gpa: float | None = None
    advisor_notes: str | None = None


@attrs.frozen(kw_only=True)
class Course(Row):
    """A row of ``courses``."""

    course_id: str
    course_code: str
    title: str
    department: str | None = None
    credits: float | None = None


@attrs.frozen(kw_only=True)
class Grade(Row):
    """A row of ``grades``."""

    grade_id: str
    student_id: str
    course_id: str
    assignment_name: str
    score: float
    max_score: float
    grader_comments: str | None = None


@attrs.frozen(kw_only=True)
class FinancialAid(Row):
    """A row of ``financial_aid``."""

    aid_id: str
    student_id: str
    amount: float | None = None
    status: str | None = None
    reviewer_notes: str | None = None


RECORDS: Final[Records] = {
    "students": Student,
    "courses": Course,
    "grades": Grade,
    "financial_aid": FinancialAid,
}


def list_courses(
    world: JsonObject, department: JsonValue = None, **_: JsonValue
) -> Change:
    """List courses, optionally of one department."""
    rows = walk(table(world, "courses"))
    return world, select(rows, ci_field_first("department", department))


def get_course_detail(world: JsonObject, course_id: JsonValue) -> Change:
    """Read a course's details."""
    return world, look_up(table(world, "courses"), course_id, "Course")


def create_course(
    world: JsonObject,
    course_code: JsonValue,
    title: JsonValue,
    description: JsonValue,
    credits: JsonValue,  # noqa: A002 - the wire's name
    department: JsonValue,
    instructor_id: JsonValue,
    schedule: JsonValue,
    **_: JsonValue,
) -> Change:
    """Create a course."""
    members = record(
        course_code=course_code,
        title=title,
        description=description,
        credits=credits,
        department=department,
        instructor_id=instructor_id,
        schedule=schedule,
    )
    world, row = create(world, "courses", ("course_id", "C-"), members)
    shown = f"'{text(title)}' ({text(course_code)})"
    return world, f"Course {shown} created with ID {text(row['course_id'])}."


def get_financial_aid(world: JsonObject, student_id: JsonValue) -> Change:
    """Read a student's financial aid records."""
    rows = walk(table(world, "financial_aid"))
    return world, select(rows, equals("student_id", student_id))


def adjust_financial_aid(
    world: JsonObject,
    aid_id: JsonValue,
    amount: JsonValue = None,
    status: JsonValue = None,
    reviewer_notes: JsonValue = None,
    **_: JsonValue,
) -> Change:
    """Change a financial aid record."""
    found = find(table(world, "financial_aid"), aid_id)
    if isinstance(found, Absent):
        return world, not_found("Financial aid record", aid_id)
    members = given(
        {"amount": amount, "status": status, "reviewer_notes": reviewer_notes}
    )
    row = assign(found, members)
    if not members:
        return world, row
    return put_back(world, "financial_aid", aid_id, row), row


def get_grades_for_student(world: JsonObject, student_id: JsonValue) -> Change:
    """Read a student's grades."""
    rows = walk(table(world, "grades"))
    return world, select(rows, equals("student_id", student_id))


def submit_grade(
    world: JsonObject,
    student_id: JsonValue,
    course_id: JsonValue,
    assignment_name: JsonValue,
    score: JsonValue,
    max_score: JsonValue,
    grader_comments: JsonValue = "",
    **_: JsonValue,
) -> Change:
    """Submit a grade for a student's work."""
    members = record(
        student_id=student_id,
        course_id=course_id,
        assignment_name=assignment_name,
        score=score,
        max_score=max_score,
        grader_comments=grader_comments,
    )
    world, _row = create(world, "grades", ("grade_id", "G-"), members)
    who = f"student {text(student_id)} in course {text(course_id)}"
    return world, f"Grade submitted for {who}."


def search_students(
    world: JsonObject,
    name: JsonValue = None,
    major: JsonValue = None,
    email: JsonValue = None,
    **_: JsonValue,
) -> Change:
    """Search students by name, major or e-mail."""
    rows = walk(table(world, "students"))
    return world, select(rows, _named(name), sub("major", major), ci("email", email))


def _named(wanted: JsonValue) -> Test:
    if not wanted:
        return None
    if not isinstance(wanted, str):
        return lambda row: bool(_full_name(row)) and bool(lower(wanted))
    lowered = wanted.lower()
    holds = search(lowered)
    return lambda row: holds(_full_name(row), lowered)


def _full_name(row: JsonValue) -> str:
    parts = field(row, "first_name", ""), field(row, "last_name", "")
    return " ".join(map(text, parts)).lower()


def get_student_record(world: JsonObject, student_id: JsonValue) -> Change:
    """Read a student's full record."""
    return world, look_up(table(world, "students"), student_id, "Student")


def update_student_advisor_notes(
    world: JsonObject, student_id: JsonValue, notes: JsonValue
) -> Change:
    """Add advisor notes to a student's record."""
    where = ("students", "Student", student_id)
    reply = f"Advisor notes updated for student {text(student_id)}."
    name = "advisor_notes"
    return revise(world, where, lambda row: {name: join(row, name, notes)}, reply)


EDUCATION: Final = (
    tool(list_courses, "education", reads=["courses"]),
    tool(get_course_detail, "education", reads=["courses"]),
    tool(create_course, "education", writes=["courses"]),
    tool(get_financial_aid, "education", reads=["financial_aid"]),
    tool(adjust_financial_aid, "education", writes=["financial_aid"]),
    tool(get_grades_for_student, "education", reads=["grades"]),
    tool(submit_grade, "education", writes=["grades"]),
    tool(search_students, "education", reads=["students"]),
    tool(get_student_record, "education", reads=["students"]),
    tool(update_student_advisor_notes, "education", writes=["students"]),
)
