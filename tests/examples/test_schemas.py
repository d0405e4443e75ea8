from pathlib import Path
from typing import Annotated, Any, cast

from examples.react.tools import Workspace
from examples.schemas import schema


def test_a_schema_says_what_signature_and_docstring_say() -> None:
    def greet(name: Annotated[str, "Whom."], times: Annotated[int, "How often."] = 1) -> str:
        """Greet somebody.

        And mean it.
        """
        return name * times

    assert schema(greet) == {
        "type": "function",
        "function": {
            "name": "greet",
            "description": "Greet somebody.\n\nAnd mean it.",
            "parameters": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "Whom."},
                    "times": {"type": "integer", "description": "How often."},
                },
                "required": ["name"],
            },
        },
    }


def test_every_tool_and_parameter_is_described(tmp_path: Path) -> None:
    for name, tool in Workspace(tmp_path).tools.items():
        function = cast(dict[str, Any], schema(tool)["function"])

        assert function["name"] == name
        assert len(function["description"]) > 40
        assert all(parameter["description"] for parameter in function["parameters"]["properties"].values())
