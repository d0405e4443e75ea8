"""Functions of the kind and with the parameters of another one, made from a template.

A call of a coroutine function or generator function takes its arguments at once, and refuses the wrong ones at once; its
code runs later. A wrapper with `*args` would find that out only then. So it is made with the parameters of what it wraps,
as `dataclasses` makes an `__init__`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import lru_cache
from keyword import iskeyword
from types import CodeType, FunctionType
from typing import Any

FILE = "<rotoscope>"
"""What stands in the place of a file for code that is made here."""


def made_like(function: FunctionType, template: str, names: Mapping[str, Any]) -> FunctionType:
    """Return the function `call` of a template, in which `$parameters`, `$arguments` and `$forget` are filled in.

    `names` are the globals of the template, `function` beside them. Names of the template begin with `r_`; a parameter
    of that name, or of none that can be written, leaves `*args` and `**kwargs`.
    """
    space: dict[str, Any] = {**names, "r_function": function}
    spelled = _spelled(function.__code__)
    code = _compiled(template, *(spelled or ("*args, **kwargs", "*args, **kwargs", "del args, kwargs")))
    exec(code, space)  # noqa: S102 - a template of ours with names of parameters
    made: FunctionType = space["call"]
    made.__code__ = made.__code__.replace(co_name=function.__code__.co_name, co_qualname=function.__code__.co_qualname)
    made.__name__, made.__qualname__ = function.__name__, function.__qualname__
    if spelled is not None:
        made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return made


@lru_cache(maxsize=256)
def _compiled(template: str, parameters: str, arguments: str, forget: str) -> CodeType:
    text = template.replace("$parameters", parameters).replace("$arguments", arguments).replace("$forget", forget)
    return compile(text, FILE, "exec")


def _spelled(code: CodeType) -> tuple[str, str, str] | None:
    """Return the parameters of some code, how they are handed on, and what forgets them; None if they can't be written."""
    plain, keyword = code.co_argcount, code.co_kwonlyargcount
    has_args, has_kwargs = bool(code.co_flags & inspect.CO_VARARGS), bool(code.co_flags & inspect.CO_VARKEYWORDS)
    names = list(code.co_varnames[: plain + keyword + has_args + has_kwargs])
    if any(not name.isidentifier() or iskeyword(name) or name.startswith("r_") for name in names):
        return None
    parameters = names[:plain]
    if code.co_posonlyargcount:
        parameters.insert(code.co_posonlyargcount, "/")
    arguments = names[:plain]
    if has_args:
        parameters.append(f"*{names[plain + keyword]}")
        arguments.append(f"*{names[plain + keyword]}")
    elif keyword:
        parameters.append("*")
    parameters += names[plain : plain + keyword]
    arguments += [f"{name}={name}" for name in names[plain : plain + keyword]]
    if has_kwargs:
        parameters.append(f"**{names[-1]}")
        arguments.append(f"**{names[-1]}")
    return ", ".join(parameters), ", ".join(arguments), f"del {', '.join(names)}" if names else "pass"
