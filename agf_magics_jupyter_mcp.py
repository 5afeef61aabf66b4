"""The tools for agents that write definitions, inside Jupyter: what jupyter-server-mcp registers.

A module beside the package: the server of Jupyter imports it at its start, and the package takes long
to import. The process is not that of a kernel, so what only a kernel knows is not told.
"""

from __future__ import annotations

from typing import Any

TOOLS = [
    "agf_magics_jupyter_mcp:agf_check_definition",
    "agf_magics_jupyter_mcp:agf_explain",
    "agf_magics_jupyter_mcp:agf_describe_language",
]
"""The entry point of the group ``jupyter_server_mcp.tools``."""


def agf_check_definition(definition: str, language: str = "") -> dict[str, Any]:
    """Return what is wrong with the text of a definition of agf-magics (a file, or a cell without its
    first line, which begins with %%): each problem with its code, its place, a hint, and where one is
    known a fix. Nothing is run. Whether a tool or an agent is registered is not checked: the kernel
    knows it.

    definition: the text, in YAML or JSON. language: pipeline, policy, plan or graph; empty: recognised
    from the text."""
    from agf_magics.editor.text_group import ONLY_A_KERNEL_KNOWS
    from agf_magics.mcp.server.authoring import check_definition

    told = check_definition(definition, language)
    problems = [one for one in told["problems"] if one["code"] not in ONLY_A_KERNEL_KNOWS]
    is_refused = any(one["severity"] == "error" for one in problems)
    return {**told, "ok": not is_refused, "problems": problems}


def agf_explain(code: str) -> str:
    """Return the page of an error of agf-magics: what it means, an example, and what to do.

    code: the code in brackets after a message, such as flow.unknown-tool."""
    from agf_magics.mcp.server.authoring import explain

    return explain(code)


def agf_describe_language(language: str) -> str:
    """Return a language of agf-magics as a text: the keys of a definition, the functions of its
    expressions, and a complete example.

    language: pipeline, policy, plan or graph."""
    from agf_magics.editor.language_text import language_text
    from agf_magics.mcp.server.authoring import known_language

    return language_text(known_language(language))
