"""Client of the Ray dashboard: jobs, Serve applications, proxy health. Failures are values."""
