"""A validating webhook that rejects the objects that the controllers would report as invalid.

`review` validates one AdmissionReview (pure, with the rules of the controllers), `certificates` issues
a CA and a server certificate, `certificate_manager` stores them in a Secret that all replicas share
and publishes the CA to the API server, and `server` serves HTTPS.

The webhook is optional: the controllers validate every object too.
"""
