"""One file per concern. A planner is a pure function from the snapshot to a Plan."""
