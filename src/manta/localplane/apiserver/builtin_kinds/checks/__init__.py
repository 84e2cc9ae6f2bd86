"""The validation of built-in kinds.

A check takes an object with its defaults, and the old one in an update, and yields causes with the texts of
kube-apiserver. Fields that no component of the embedded plane reads are mostly not checked.
"""
