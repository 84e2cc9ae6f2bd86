"""Talk to a Kubernetes API server: one async client over one narrow transport.

Walk through it in this order: `errors` (what can go wrong, drawn), `transport` (bytes to a
server and back), `credentials` (who we are and where the server is), `client` (the verbs),
`connect` (all of it tied together). Importing the room costs neither aiohttp nor yaml.
"""
