"""Talk to a Ray dashboard: jobs, Serve applications, proxy health. Failure is a value here."""
