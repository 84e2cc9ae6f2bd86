"""Decodes protobuf request bodies of built-in kinds to JSON objects.

kubectl since 1.32 and all typed Go clients send protobuf and do not fall back to JSON. Responses are
always JSON, which they all accept.
"""

from manta.localplane.apiserver.protobuf.envelope import MAGIC, decode
from manta.localplane.apiserver.protobuf.wire import ProtobufError

__all__ = ["MAGIC", "ProtobufError", "decode"]
