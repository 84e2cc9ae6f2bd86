"""Protobuf request bodies of built-in kinds, turned into JSON objects.

kubectl since 1.32 and every typed Go client send them and do not fall back to JSON. Answers are
always JSON, which all of them accept.
"""

from manta.localplane.apiserver.protobuf.envelope import MAGIC, decode
from manta.localplane.apiserver.protobuf.wire import ProtobufError

__all__ = ["MAGIC", "ProtobufError", "decode"]
