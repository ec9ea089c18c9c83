"""What the specification says a scenario's run looks like, told by plain data code that does not use interlock.

``simulate(scenario)`` walks through the scenario's calls by the rules of the runtime specification and writes down the
same facts that a real run is asked for. It exists to give the *value* of a fact that differs from the recording on
purpose; a fact that no divergence names is never taken from here.
"""

from __future__ import annotations

from .course import CallCourse, Course, Departure, Record
from .simulate import simulate

__all__ = ["CallCourse", "Course", "Departure", "Record", "simulate"]
