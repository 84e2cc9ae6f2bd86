"""Ray jobs and dashboards through a Kubernetes API server: packages, submission, logs, readiness."""
