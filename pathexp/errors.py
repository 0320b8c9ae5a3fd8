"""Every error that the product raises on purpose.

A message says what was asked, what was found, where, and what to do about it.
"""

from __future__ import annotations


class PathexpError(Exception):
    """The root of all errors that pathexp raises on purpose."""


class ConfigError(PathexpError):
    """Sizes or switches that do not fit together, or that are not known."""


class WeightsError(PathexpError):
    """Arrays that are missing, of a wrong shape or kind, or not finite."""


class LoadError(PathexpError):
    """A file or a name from which no model can be read."""


class TokenError(PathexpError):
    """Text or token ids that the model cannot take."""


class SpaceError(PathexpError):
    """Linear maps whose spaces do not meet."""


class SizeError(PathexpError):
    """A result that would be too large to hold or to list."""


class GraphError(PathexpError):
    """A residual graph that is not well formed, or a node that is not in it."""


class PathError(PathexpError):
    """A path that does not exist in the graph."""


class QueryError(PathexpError):
    """A path query that cannot be read, or that names what is not there."""


class FreezeError(PathexpError):
    """A quantity that is not defined on a frozen run, or not valid to hold fixed."""


class RewriteError(PathexpError):
    """A rewrite of a model that would change what it computes."""


class TargetError(PathexpError):
    """A target that does not belong to the run it is asked of."""


class LoadWarning(UserWarning):
    """Something that a file leaves open, and that was decided by a default."""


class AnswerError(PathexpError):
    """An answer's part that does not fit together, or that is asked for and is not there."""


class MissingExtraError(PathexpError):
    """An optional package that is not installed; the message names the extra and the command."""
