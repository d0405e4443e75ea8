"""Write the generated parts of the documentation, which stand between two markers in the pages.

    python docs/generate.py            # write them anew
    python docs/generate.py --check    # name the pages whose parts lag, and fail

A part begins with `<!-- begin WHAT -->` and ends with `<!-- end -->`. WHAT is one of

    fields of CLASS       the fields of a class of the trace model or of the journal
    types of MODULE       the types that the fields of that module have
    options of COMMAND    usage, arguments and options of a command
    commands in FOLDER    the list of commands, whose pages are in that folder
    formats               the trace formats, with what each is told by
    hit rates             the definitions of the hit rate
    engine profiles       what each engine can reuse of a prompt
    reading by MODULE     what a reader in rotoscope.traces.formats keeps, approximates and loses
    writing by MODULE     the same of a writer
    aspects of MODULE.X   the same of another tuple of aspects, there or in a module by its path in rotoscope
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from importlib import import_module
from itertools import cycle
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le
from pydantic import StringConstraints
from typer.models import ArgumentInfo, OptionInfo

from rotoscope.cli import app
from rotoscope.traces import journal, model
from rotoscope.traces.analysis.hit_rates import HIT_RATES
from rotoscope.traces.analysis.profiles import PROFILES
from rotoscope.traces.formats.fidelity import VERDICTS, Aspect
from rotoscope.traces.formats.registry import all_formats

PAGES = Path(__file__).parent
README = PAGES.parent / "README.md"
PART = re.compile(r"(<!-- begin (?P<what>[^>]+?) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)
MODULES: dict[str, ModuleType] = {"model": model, "journal": journal}
NOT_TYPES = {"TraceEvent", "JournalRecord"}
VALUES = {"int": "N", "float": "X", "str": "TEXT", "Path": "PATH"}


def main(arguments: list[str]) -> int:
    pages = {page: page.read_text() for page in [README, *sorted(PAGES.glob("*.md"))]}
    fresh = {page: with_parts(text) for page, text in pages.items()}
    lagging = [page for page in pages if fresh[page] != pages[page]]
    for page in lagging:
        if "--check" in arguments:
            print(f"{page.name}: the generated parts lag; run 'make docs'")
        else:
            page.write_text(fresh[page])
            print(f"{page.name}: written")
    return 1 if lagging and "--check" in arguments else 0


def with_parts(text: str) -> str:
    """Return the text of a page with every generated part made anew."""
    return PART.sub(lambda found: f"{found[1]}{part(found['what'])}{found[4]}", text)


def part(what: str) -> str:
    """Return the generated part of that name; it ends with a line break."""
    for prefix, make in PARTS.items():
        if what.startswith(prefix):
            return make(what.removeprefix(prefix))
    raise SystemExit(f"no part is called {what!r}; the parts are {', '.join(PARTS)}")


def table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [headings, tuple("---" for _ in headings), *rows]
    return "".join(f"| {' | '.join(map(as_cell, line))} |\n" for line in lines)


def as_cell(text: str) -> str:
    """Return text so that it shows as it is in a cell of a table."""
    pieces = text.replace("|", "\\|").split("`")
    return "`".join(
        piece if inside_code else piece.replace("<", "&lt;") for inside_code, piece in zip(cycle((False, True)), pieces)
    )


# Fields and types


def fields_of(name: str) -> str:
    """Return the table of a class: field, type, whether it is required or what stands for it, meaning."""
    module = next(module for module in MODULES.values() if hasattr(module, name))
    meanings = documented_names(module, name)
    rows = []
    for field in dataclasses.fields(getattr(module, name)):
        if field.name in inherited_names(module, name):
            continue
        row = (f"`{field.name}`", type_words(str(field.type)), default_word(field.default), meanings[field.name])
        rows.append(row)
    return table(("field", "type", "default", "meaning"), rows)


def inherited_names(module: ModuleType, name: str) -> set[str]:
    """Return the fields of the classes it derives from, which have a table of their own."""
    parents = getattr(module, name).__mro__[1:]
    return {
        field.name for parent in parents if dataclasses.is_dataclass(parent) for field in dataclasses.fields(parent)
    }


def documented_names(module: ModuleType, class_name: str = "") -> dict[str, str]:
    """Return the strings that stand beneath names, in a class or at the top of a module; none is an empty string."""
    body: list[ast.stmt] = ast.parse(inspect.getsource(module)).body
    if class_name:
        body = next(node.body for node in body if isinstance(node, ast.ClassDef) and node.name == class_name)
    meanings = {}
    for node, below in zip(body, [*body[1:], ast.Pass()], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            meanings[node.target.id] = text_of(below).replace("None", "null")
    return meanings


def text_of(node: ast.stmt) -> str:
    """Return the text of a string that stands alone, in one line."""
    match node:
        case ast.Expr(ast.Constant(str(text))):
            return " ".join(text.split())
    return ""


def default_word(default: object) -> str:
    if default is dataclasses.MISSING:
        return "required"
    match default:
        case None:
            return "null"
        case bool():
            return f"`{str(default).lower()}`"
        case ():
            return "`[]`"
    return f"`{default}`"


def type_words(annotation: str) -> str:
    """Return an annotation as readers of JSON know it; names of types are those of the table of types."""
    tree = ast.parse(annotation, mode="eval").body
    return " or ".join(dict.fromkeys(word_of(node) for node in alternatives(tree)))


def alternatives(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp):
        yield from alternatives(node.left)
        yield from alternatives(node.right)
    else:
        yield node


def word_of(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return "null"
    if isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if ast.unparse(node.value) == "Literal":
            return ", ".join(f"`{ast.literal_eval(item)}`" for item in parts)
        return f"list of {word_of(parts[0])}"
    return ast.unparse(node)


def types_of(module_name: str) -> str:
    """Return the table of the type aliases of a module, with the limits that the reader enforces."""
    module = MODULES[module_name]
    aliases = [node.target.id for node in ast.parse(inspect.getsource(module)).body if is_alias(node)]  # type: ignore[attr-defined]
    meanings = documented_names(module)
    rows = [(name, limits(getattr(module, name)), meanings[name]) for name in aliases if name not in NOT_TYPES]
    return table(("type", "what it may be", "meaning"), rows)


def is_alias(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias"


def limits(kind: Any) -> str:
    """Return in words what the validator of a type lets through."""
    if get_origin(kind) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(kind))
    if get_origin(kind) is tuple:
        return f"list of {len(get_args(kind))}: {', '.join(limits(item) for item in get_args(kind))}"
    plain, *marks = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    words = [{int: "integer", float: "number", bool: "true or false", str: "string"}[plain]]
    bounds = {Ge: "at least", Gt: "more than", Le: "at most"}
    for mark in marks:
        if type(mark) in bounds:
            words.append(f"{bounds[type(mark)]} {next(iter(vars_of(mark).values()))}")
        elif isinstance(mark, StringConstraints):
            words.append(f"`{mark.pattern}`")
    return ", ".join(words)


def vars_of(mark: Any) -> dict[str, Any]:
    return {field.name: getattr(mark, field.name) for field in dataclasses.fields(mark)}


# Commands


def commands() -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield name and function of every command, sorted by name."""
    named = {(info.name or info.callback.__name__): info.callback for info in app.registered_commands if info.callback}
    yield from sorted(named.items())


def list_of_commands(folder: str) -> str:
    rows = ((f"[`rotoscope {name}`]({folder}/{name}.md)", first_sentence(function)) for name, function in commands())
    return table(("command", ""), rows)


def first_sentence(function: Callable[..., object]) -> str:
    return (inspect.getdoc(function) or "").split("\n")[0]


def options_of(command: str) -> str:
    """Return what a command does, how it is called, its example, and its arguments and options."""
    function = dict(commands())[command]
    hints = get_type_hints(function, include_extras=True)
    usage, rows = [f"rotoscope {command}"], []
    for parameter in inspect.signature(function).parameters.values():
        plain, mark = get_args(hints[parameter.name])[:2]
        if isinstance(mark, ArgumentInfo):
            name = mark.metavar or parameter.name.upper()
            name = f"{name}..." if get_origin(plain) is list and "..." not in name else name
            usage.append(name if parameter.default is inspect.Parameter.empty else f"[{name}]")
            rows.append((f"`{name}`", "", mark.help or ""))
        elif isinstance(mark, OptionInfo):
            rows.append((option_names(parameter.name, plain, mark), shown_default(parameter.default), mark.help or ""))
    usage.insert(1, "[OPTIONS]")
    example = (inspect.getdoc(function) or "").split("Example: ")[-1].strip()
    block = f"{first_sentence(function)}\n\n```\n{' '.join(usage)}\n```\n\nExample:\n\n```\n{example}\n```\n\n"
    return block + table(("argument or option", "default", "meaning"), rows)


def option_names(name: str, plain: Any, mark: OptionInfo) -> str:
    given = [
        *([mark.default] if isinstance(mark.default, str) else []),
        *(mark.param_decls or ()),
    ]  # as Annotated has it
    names = given or [f"--{name.replace('_', '-')}"]
    if bool in (plain, *get_args(plain)):
        return f"`{', '.join(names)}`" if given else f"`{names[0]}`, `--no-{names[0][2:]}`"
    return f"`{', '.join(names)} {mark.metavar or value_word(plain)}`"


def value_word(plain: Any) -> str:
    """Return what stands for a value of an option, which may be absent or given several times: one of a set, or its kind."""
    if inner := [kind for kind in get_args(plain) if kind is not type(None)]:
        return value_word(inner[0])
    return "|".join(plain) if issubclass(plain, StrEnum) else VALUES.get(plain.__name__, "TEXT")


def shown_default(default: object) -> str:
    if default is inspect.Parameter.empty:
        return "required"
    if default is None or default == "":
        return ""
    return {True: "yes", False: "no"}[default] if isinstance(default, bool) else f"`{default}`"


# Formats and metrics


def hit_rates(nothing: str) -> str:
    """Return the definitions of the hit rate by name."""
    return table(("name", "what is counted", "used by"), ((f"`{r.name}`", r.definition, r.source) for r in HIT_RATES))


def engine_profiles(nothing: str) -> str:
    """Return the engine profiles, each with where it is known from."""
    rows = (
        (
            f"`{one.name}`",
            str(one.block_size),
            str(one.computed_tokens),
            "kept" if one.decode_reuse else "not kept",
            ("kept" if one.keeps_thinking else "drops the answer too") if one.decode_reuse else "not kept",
            one.evidence,
            one.source,
        )
        for one in PROFILES.values()
    )
    headings = ("profile", "tokens a block", "always computed", "generated tokens", "thinking", "known from", "of what")
    return table(headings, rows)


def formats(nothing: str) -> str:
    """Return the formats in the order in which they are tried."""
    rows = [
        (
            known.title,
            known.told_by,
            f"`{known.name}`" if known.write_trace or known.write_corpus else "is not written",
            "one trace a file" if known.write_trace else "one file for all" if known.write_corpus else "",
            str(known.block_size or ""),
        )
        for known in all_formats()
    ]
    return table(("format", "told by", "`--to`", "written as", "usual block"), rows)


def reading(module: str) -> str:
    return aspects_of(f"{module}.READ_ASPECTS")


def writing(module: str) -> str:
    return aspects_of(f"{module}.WRITE_ASPECTS")


def aspects_of(name: str) -> str:
    """Return the table of a tuple of aspects, which is named with its module, with a path where that is elsewhere."""
    module, _, variable = name.rpartition(".")
    package = "rotoscope" if "." in module else "rotoscope.traces.formats"
    return aspects(getattr(import_module(f"{package}.{module}"), variable))


def aspects(declared: Iterable[Aspect]) -> str:
    """Return what becomes of each aspect of a trace, what is kept first."""
    rows = sorted(declared, key=lambda aspect: VERDICTS.index(aspect.verdict))
    return table(("aspect", "", "how"), ((aspect.what, aspect.verdict, aspect.how) for aspect in rows))


PARTS: dict[str, Callable[[str], str]] = {
    "fields of ": fields_of,
    "types of ": types_of,
    "options of ": options_of,
    "commands in ": list_of_commands,
    "formats": formats,
    "hit rates": hit_rates,
    "engine profiles": engine_profiles,
    "reading by ": reading,
    "writing by ": writing,
    "aspects of ": aspects_of,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
