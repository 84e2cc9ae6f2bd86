"""One concern, one function, one file. A planner reads the snapshot and answers with a Plan."""
