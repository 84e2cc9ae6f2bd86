"""One concern, one file. Each planner returns a Step or a Plan of a snapshot, and executes nothing."""
