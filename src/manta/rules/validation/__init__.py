"""Validation of the Ray kinds: functions that return violations and never raise."""
