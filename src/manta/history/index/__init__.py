"""One SQLite file for each session: tasks with attempts and errors, actors, jobs, nodes, workers, logs."""
