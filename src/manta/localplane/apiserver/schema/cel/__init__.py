"""An evaluator of the Common Expression Language (CEL), as far as CRD rules use it.

`lexer` turns text into tokens, `parser` tokens into a tree, `compiler` the tree into closures that run
on JSON. Unknown functions and variables are found at compile time, so that the CRD is refused and not
each of its objects.
"""

from manta.localplane.apiserver.schema.cel.compiler import Program, compile_expression
from manta.localplane.apiserver.schema.cel.errors import BadExpressionError, EvaluationError

__all__ = ["BadExpressionError", "EvaluationError", "Program", "compile_expression"]
