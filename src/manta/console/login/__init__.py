"""The ways to log in: a one-time link, a pasted token, an OIDC issuer, or a proxy in front of the console."""
