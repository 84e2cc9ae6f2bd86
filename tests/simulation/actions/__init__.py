"""The table of what can happen in a story: a file for each area, users, operators, network, nodes, Ray, policy.

To add a fault, write a function with `@action` in the file of its area, undo it in `calm` if it lasts, and let
`generate` draw it. Every function gets the world and the arguments of the step; what cannot be done is skipped,
because a step may have lost its object when a story is shortened.
"""

from simulation.actions import network, nodes, operator, policy, ray, user
from simulation.actions.end import calm, suspend_schedules
from simulation.actions.table import ACTIONS, DRIFT

AREAS = (user, operator, network, nodes, ray, policy)
"""Importing them fills the table."""

__all__ = ["ACTIONS", "AREAS", "DRIFT", "calm", "suspend_schedules"]
