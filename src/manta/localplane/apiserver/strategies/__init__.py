"""Strategies: what differs between the kinds of the API, as in the registry of kube-apiserver.

Three implementations: built-in kinds, custom resources and CustomResourceDefinitions. The handlers and the
resource store call the strategy of a resource and never ask which kind it is.
"""
