"""What somebody types into Claude Code, and what its model says to that."""

from __future__ import annotations

import json
from pathlib import Path

from clients.scripted_server import Script
from coding_agents.agents import Canaries
from coding_agents.scripts import last_text, offered
from coding_agents.tasks import ByTask, tool
from coding_agents.terminal import ENTER, ESCAPE, Terminal

from rotoscope.replayer.simulator.model import Answer, ModelRequest, ToolCall

MEETING, PLACE, GUESTS = "Say when the meeting is.", "Say where it is.", "Say who comes."
AT_NINE, IN_THE_HALL, EVERYBODY = "At nine,", "In the hall,", "Everybody comes,"
SUGGESTION = "[SUGGESTION MODE:"
PROMPT = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
TITLE = json.dumps({"title": "Meetings"})


def bash(command: str) -> ToolCall:
    """Run a command; it writes somewhere, or it would be run unasked."""
    return tool("Bash", command=command, description="Look")


def script(canaries: Canaries) -> Script:
    """Answer three questions, make titles, and sum up."""
    words = canaries.said
    asked = ByTask(
        {
            MEETING: [
                Answer(text="I look.", reasoning=f"{words.thinking} first.", tool_calls=(bash("cat notes.md"),)),
                Answer(tool_calls=(bash(f"echo {words.arguments} >made"), bash("git log --oneline"))),
                Answer(text=f"{AT_NINE} says {words.text}."),
            ],
            PLACE: [
                Answer(tool_calls=(bash("rm notes.md"),)),
                Answer(text=f"{IN_THE_HALL} says {words.text}."),
            ],
            GUESTS: [Answer(text=f"{EVERYBODY} says {words.text}.")],
        },
        otherwise="That is all.",
    )

    def answer(request: ModelRequest) -> Answer:
        if "<summary>" in last_text(request):
            return Answer(
                text=f"<analysis>{words.thinking}</analysis>\n<summary>A meeting, and {words.text}.</summary>"
            )
        if SUGGESTION in last_text(request):
            return Answer(text=GUESTS)
        return asked(request) if offered(request) else Answer(text=TITLE)

    return answer


def answer_first_questions(home: Path, key: str) -> None:
    """Write what it keeps of its first start, at which it would want to reach its maker's server.

    Which folders and keys are trusted is there as well, for it takes no key while a question is new on the screen.
    """
    projects = {str(project): {"hasTrustDialogAccepted": True} for project in home.glob("project-*")}
    known = {"hasCompletedOnboarding": True, "projects": projects, "bypassPermissionsModeAccepted": True}
    keys = {"customApiKeyResponses": {"approved": [key[-20:]], "rejected": []}}
    (home / ".claude.json").write_text(json.dumps(known | keys))
    (home / ".claude").mkdir(exist_ok=True)
    (home / ".claude" / "settings.json").write_text(json.dumps({"skipDangerousModePermissionPrompt": True}))


async def begins(at: Terminal) -> None:
    """Wait until it is there."""
    await at.sees("Claude Code v")
    await at.sees(PROMPT)


async def ends(at: Terminal) -> None:
    """Leave."""
    await at.says("/exit")


async def asks(at: Terminal) -> None:
    """Ask two things."""
    await begins(at)
    await at.says(MEETING)
    await at.sees(AT_NINE)
    await at.says(PLACE)
    await at.sees(IN_THE_HALL)
    await ends(at)


async def sums_up(at: Terminal) -> None:
    """Ask, sum up, ask again, begin anew, ask once more."""
    await begins(at)
    await at.says(MEETING)
    await at.sees(AT_NINE)
    await at.says("/compact")
    await at.sees("Compacted")
    await at.says(PLACE)
    await at.sees(IN_THE_HALL)
    await at.says("/clear")
    await at.sees("Claude Code v")
    await at.says(GUESTS)
    await at.sees(EVERYBODY)
    await ends(at)


async def comes_back(at: Terminal) -> None:
    """Ask, leave, continue; leave, and take the session out of the list."""
    await begins(at)
    await at.says(MEETING)
    await at.sees(AT_NINE)
    await ends(at)
    await begins(at)
    await at.says(PLACE)
    await at.sees(IN_THE_HALL)
    await ends(at)
    await at.sees("Resume session")
    at.presses(ENTER)
    await begins(at)
    await at.says(GUESTS)
    await at.sees(EVERYBODY)
    await ends(at)


async def refuses(at: Terminal) -> None:
    """Allow what is asked for first, refuse what is asked for then, and say something else instead."""
    await begins(at)
    await at.says(MEETING)
    await at.sees("Do you want")
    at.presses(ENTER)
    await at.sees(AT_NINE)
    await at.says(PLACE)
    await at.sees("Do you want")
    at.presses(ESCAPE)
    await at.says(GUESTS)
    await at.sees(EVERYBODY)
    await ends(at)


async def is_made_suggestions(at: Terminal) -> None:
    """Ask two things, waiting for what is suggested as the next one; sum up."""
    await begins(at)
    await at.says(MEETING)
    await at.sees(AT_NINE)
    await at.until(lambda: at.calls == 5)
    await at.says(PLACE)
    await at.sees(IN_THE_HALL)
    await at.until(lambda: at.calls == 8)
    await at.says("/compact")
    await at.sees("Compacted")
    await ends(at)
