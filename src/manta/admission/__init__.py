"""Validation at the door: a webhook that refuses what the controllers would call invalid.

`review` judges one AdmissionReview (pure: the rules and the words are the controllers' own),
`certificates` makes an authority and what it signs, `keeper` keeps both in a Secret that all
replicas share and tells the API server whom to trust, `server` speaks HTTPS.

It is optional. The controllers validate everything themselves, and an object that got past the door
is told what is wrong by its conditions and Events.
"""
