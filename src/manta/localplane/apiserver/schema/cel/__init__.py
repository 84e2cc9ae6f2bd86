"""A small evaluator for the Common Expression Language, as far as CRD rules use it.

Text becomes tokens (`lexer`), tokens become a tree (`parser`), the tree becomes closures
(`compiler`), and those run on plain JSON. What is not known, a function or a variable, is found
when a rule is compiled, so that a CRD is refused and not each of its objects later.
"""

from manta.localplane.apiserver.schema.cel.compiler import Program, compile_expression
from manta.localplane.apiserver.schema.cel.errors import BadExpressionError, EvaluationError

__all__ = ["BadExpressionError", "EvaluationError", "Program", "compile_expression"]
