"""Drives JupyterLab as a user does: a server for the tests, a page in headless Chromium, and a few verbs for its use.

    with Lab(folder) as lab, chromium() as browser:
        lab.write("a.ipynb", "%load_ext agf_magics", "%%pipeline\npipeline: p\nsteps: []")
        page = Notebook(browser, lab, "a.ipynb")
        page.run_all()
        page.picture("a")

No method waits for a fixed time. Each waits for a state of the page, for at most SECONDS. The commands are JupyterLab's
own, so a test says what a user does (`notebook:interrupt-kernel`), independent of the place of a button. Playwright is
imported when a browser starts, because a plain test run leaves these tests out and does not need it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import nbformat

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

SECONDS = int(os.environ.get("BROWSER_SECONDS", "120"))
POLLING = 50
"""Milliseconds between two checks of a page. By default Playwright checks at each frame, but a page may paint none for
a long time."""
PICTURES = Path(__file__).parents[2] / "build" / "screenshots"
FLAGS = [
    "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip

# JupyterLab shows no news, looks for no updates, and keeps all cells in the page, even those out of sight.
SETTINGS = {
    "@jupyterlab/apputils-extension/notification": '{"fetchNews": "false", "checkForUpdates": false}',
    "@jupyterlab/notebook-extension/tracker": '{"windowingMode": "none"}',
}


class Lab:
    """A server on a free port of this machine, with only these settings. Its notebooks are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""
        self.log: list[str] = []

    def __enter__(self) -> Lab:
        home = self.folder.parent / f"{self.folder.name}-home"
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "pyproject.toml").touch()  # makes the folder a project, without the runs of another one
        for name, text in SETTINGS.items():
            path = home / "settings" / f"{name}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        places = {
            "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime",
            "IPYTHONDIR": "ipython", "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        }  # fmt: skip
        self._server = subprocess.Popen(
            [
                sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser",
                "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", f"--ServerApp.root_dir={self.folder}",
                "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True",
                "--JupyterNotebookApp.expose_app_in_browser=True", "--LabApp.extension_manager=readonly",
            ],
            env={**os.environ, **{name: str(home / place) for name, place in places.items()}},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        started = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(started,), daemon=True)
        self._reader.start()
        if not started.wait(SECONDS) or not self.url:
            self.__exit__()
            raise RuntimeError("JupyterLab did not start:\n" + "".join(self.log))
        return self

    def __exit__(self, *failure: object) -> None:
        self._server.terminate()
        try:
            self._server.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._reader.join(SECONDS)

    def _read(self, started: threading.Event) -> None:
        assert self._server.stderr
        for line in self._server.stderr:
            self.log.append(line)
            if not self.url and (address := re.search(r"http://127\.0\.0\.1:[1-9]\d*", line)):
                self.url = address[0]
                started.set()
        started.set()

    def write(self, name: str, *cells: str) -> None:
        """Write a notebook of these code cells."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata = {
            "kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"},
            "language_info": {"name": "python"},
        }
        nbformat.write(notebook, self.folder / name)

    def read(self, name: str) -> nbformat.NotebookNode:
        """Read a notebook as it was last saved."""
        return nbformat.read(self.folder / name, as_version=4)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The Chromium of this machine, or else the one of Playwright."""
    from playwright.sync_api import sync_playwright

    programs = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=next(filter(None, programs), None), args=FLAGS)
        yield browser
        browser.close()


class Token(NamedTuple):
    text: str
    look: str
    """The classes of the text's span; empty if the text has no colour."""


class Notebook:
    """A notebook that is open in a page of its own. `app` is `lab` (JupyterLab) or `notebooks` (Notebook 7)."""

    def __init__(
        self,
        browser: Browser,
        lab: Lab,
        name: str,
        app: str = "lab",
        watch: Callable[[Any], None] | None = None,
        width: int = 1200,
    ) -> None:
        """``watch`` gets the payload of each message that the page receives from the server. ``width``: in pixels."""
        self.lab = lab
        self.name = name
        path = f"lab/workspaces/{Path(name).stem}/tree/{name}?reset" if app == "lab" else f"{app}/{name}"
        self.page = browser.new_page(viewport={"width": width, "height": 1400})
        self.page.set_default_timeout(SECONDS * 1000)
        if watch is not None:
            self.page.on("websocket", lambda socket: socket.on("framereceived", watch))
        self.errors: list[str] = []
        """The errors that the page itself reported."""
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.goto(f"{lab.url}/{path}", wait_until="domcontentloaded")
        self._ready()

    def close(self) -> None:
        self.page.close()

    def _ready(self, idle: bool = True) -> None:
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")
        self.wait(f"{PANEL}?.sessionContext?.session?.kernel" + ("?.status === 'idle'" if idle else ""))

    def wait(self, condition: str, argument: Any = None) -> None:
        """Wait until this JavaScript is true, in which ``it`` is the argument. A failure says what the page shows
        instead."""
        try:
            self.page.wait_for_function(f"it => {condition}", arg=argument, polling=POLLING)
        except Exception as error:
            error.add_note(self.state())
            raise

    def state(self) -> str:
        """A description of the page for failures: the kernel's status, the text of each output, errors of the page."""
        status = self.page.evaluate(f"() => {PANEL}?.sessionContext?.session?.kernel?.status")
        outputs = self.page.evaluate(f"() => [...document.querySelectorAll('{AREAS}')].map({SEEN})")
        picture = self.picture(f"failed-{Path(self.name).stem}")
        texts = [f"cell {index}: {text!r}" for index, text in enumerate(outputs)]
        return "\n".join([f"kernel: {status}", *texts, f"console: {self.errors}", f"screenshot: {picture.name}"])

    # ---- the editor

    def cell(self, index: int) -> Locator:
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def output(self, index: int) -> Locator:
        return self.cell(index).locator(".jp-Cell-outputArea")

    def says(self, index: int, *texts: str) -> None:
        """Wait until these texts are in the output of a cell, which is painted a little later than it arrives."""
        for text in texts:
            self.wait(f"({SEEN})({OUTPUT}).includes(it[1])", [index, text])

    def seen(self, index: int) -> str:
        """The visible text in the output of a cell, with that of an explorer."""
        return str(self.page.evaluate(f"it => ({SEEN})({OUTPUT})", [index]))

    def explorer(self, index: int) -> Locator:
        """The explorer in the output of a cell, once it is there."""
        explorer = self.output(index).locator(".explorer").first
        explorer.wait_for()
        return explorer

    def open_view(self, index: int, name: str) -> None:
        """Open a view of the explorer: Steps, Picture or Timeline."""
        self.explorer(index).locator("[role=tab]", has_text=name).click()

    def open_step(self, index: int, text: str) -> Locator:
        """Select the first row with this text. Returns the panel, once it shows the step."""
        row = self.explorer(index).locator(".row", has_text=text).first
        row.click()
        panel = self.explorer(index).locator(".panel")
        panel.locator("h4").first.wait_for()
        return panel

    def shows_picture(self, index: int) -> None:
        """Wait until the first picture in the output of a cell is visible."""
        self.wait(f"(img => img?.complete && img.naturalWidth > 100)({OUTPUT}?.querySelector('img'))", [index])

    def select(self, index: int) -> None:
        self.page.evaluate("it => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = it }", index)

    def type(self, index: int, text: str, *, instead: bool = False) -> None:
        """Type at the end of a cell, or replace its content with ``instead``, key by key as a user does; `\\n` is the
        Enter key."""
        self.cell(index).locator(".cm-content").click()
        self.page.keyboard.press("Control+A" if instead else "Control+End")
        if instead:
            self.page.keyboard.press("Delete")
        self.page.keyboard.type(text)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def source(self, index: int) -> str:
        return str(self.page.evaluate(f"it => {PANEL}.content.widgets[it].model.sharedModel.getSource()", index))

    def tokens(self, index: int) -> list[Token]:
        """The text of a cell in the pieces that the editor colours."""
        pieces = self.page.evaluate(PIECES, index)
        return [Token(text, look) for text, look in pieces]

    def look(self, index: int, text: str) -> str:
        """How the first piece with exactly this text is shown, once it has a colour. Long texts get their colours
        later."""
        piece = f"({PIECES})(it[0]).find(piece => piece[0] === it[1])?.[1]"
        self.wait(piece, [index, text])
        return str(self.page.evaluate(f"it => {piece}", [index, text]))

    def becomes(self, index: int, text: str, look: str) -> None:
        """Wait until the first piece with exactly this text is shown in this way."""
        self.wait(f"({PIECES})(it[0]).find(piece => piece[0] === it[1])?.[1] === it[2]", [index, text, look])

    # ---- the kernel

    def run_all(self, *, wait: bool = True) -> None:
        self.command("notebook:run-all-cells", wait=wait)

    def run(self, index: int, *, wait: bool = True) -> None:
        self.command("notebook:run-cell", wait=wait, cell=index)

    def interrupt(self) -> None:
        self.command("notebook:interrupt-kernel", wait=False)  # `finished` also waits for the interrupted cell

    def command(self, name: str, wait: bool = True, cell: int | None = None, **arguments: Any) -> None:
        """Run a command of JupyterLab, with ``cell`` selected. Without ``wait`` it continues in the background, and
        `finished` waits for it."""
        number = self.page.evaluate(COMMAND, [name, arguments, cell])
        if wait:
            self.wait("!window.agfCommands.has(it)", number)

    def finished(self) -> None:
        """Wait until every command, and so every cell that it ran, has ended."""
        self.wait("window.agfCommands.size === 0")

    # ---- the page

    def save(self) -> nbformat.NotebookNode:
        self.command("docmanager:save")
        return self.lab.read(self.name)

    def reload(self, *, idle: bool = True) -> None:
        """Load the page again. Wait until its kernel is idle, or with ``idle=False`` until the page knows its kernel,
        because a busy kernel does not answer."""
        self.page.reload(wait_until="domcontentloaded")
        self._ready(idle)

    def theme(self, name: str) -> None:
        """Choose the theme Light or Dark."""
        self.command("apputils:change-theme", theme=f"JupyterLab {name}")
        self.wait("document.body.dataset.jpThemeLight === it", "true" if name == "Light" else "false")
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")

    def picture(self, name: str, cell: int | None = None) -> Path:
        """A screenshot of the page, or of one cell with its output."""
        path = PICTURES / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        (self.page if cell is None else self.cell(cell)).screenshot(path=path)
        return path


Open = Callable[..., Notebook]
"""The type of the fixture `opened`. ``opened("cell", "cell", app="lab")`` opens a notebook of these cells and waits
until its kernel is idle. ``file=`` opens an existing notebook instead. ``width=`` is the width of the window in pixels,
by default 1,200."""

PANEL = "window.jupyterapp?.shell.currentWidget"

AREAS = ".jp-Notebook .jp-Cell .jp-Cell-outputArea"

OUTPUT = "document.querySelectorAll('.jp-Notebook .jp-Cell')[it[0]]?.querySelector('.jp-Cell-outputArea')"

EXPLORERS = "[...document.querySelectorAll('.agf-run')].map(host => host.shadowRoot).filter(Boolean)"
"""The roots of all explorers of a page."""

SEEN = """area => {
  const hosts = area ? [...area.querySelectorAll('.agf-run')] : [];
  const shown = hosts.map(host => host.shadowRoot?.querySelector('.explorer'));
  return [area, ...shown].map(node => node?.innerText ?? '').join('\\n');
}"""

# All in one turn of the page, so that nothing selects another cell in between.
COMMAND = """([name, given, cell]) => {
  if (cell !== null) window.jupyterapp.shell.currentWidget.content.activeCellIndex = cell;
  const going = window.agfCommands ??= new Set();
  const number = window.agfCommand = (window.agfCommand ?? 0) + 1;
  const end = () => going.delete(number);
  const fail = error => { console.error(`the command ${name} failed: ${error}`); end(); };
  going.add(number);
  window.jupyterapp.commands.execute(name, given).then(end, fail);
  return number;
}"""

PIECES = """index => {
  const pieces = [];
  const walk = (node, look) => {
    if (node.nodeType === Node.TEXT_NODE) pieces.push([node.textContent, look]);
    else for (const child of node.childNodes) walk(child, node.className?.startsWith?.("cm-") ? "" : node.className);
  };
  const cell = document.querySelectorAll(".jp-Notebook .jp-Cell")[index];
  for (const line of cell.querySelectorAll(".cm-line")) for (const child of line.childNodes) walk(child, "");
  return pieces;
}"""
