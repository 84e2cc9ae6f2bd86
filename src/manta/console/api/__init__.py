"""The routes of KubeRay's API server (v2), with the rights of the caller.

Requests go on to Kubernetes with the token of the request, or of the console's cookie: the console adds no rights.
Answers are streamed, and nothing is sent twice.
"""
