"""An async client of a Kubernetes API server.

Read it in this order: `errors` (the exception tree), `config` (which cluster, which user), `credentials`
(tokens and certificates, renewed), `transport` (HTTP), `request_executor` (retries and rate limit), `client`
(the verbs), `connect` (builds a client). Importing the package imports neither aiohttp nor a YAML library.
"""
