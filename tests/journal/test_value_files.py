"""The folder of large values returns exactly what was written, whatever files are in the folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agf_magics.journal.database import value_files
from agf_magics.journal.database.locks import ProcessLock, alive
from agf_magics.journal.database.value_files import NoRoom, Part, PartError, ValueFiles

DATA = bytes(range(256)) * 400
PART = Part(hashlib.sha256(DATA).hexdigest(), len(DATA))

OWNER = "1-0123456789ab"


@pytest.fixture
def files(tmp_path: Path) -> ValueFiles:
    return ValueFiles(tmp_path / "values", OWNER)


@pytest.fixture
def other(files: ValueFiles) -> ValueFiles:
    """Another process that uses the same folder."""
    return ValueFiles(files.folder, "2-0123456789ab")


def names(files: ValueFiles) -> list[str]:
    return sorted(path.name for path in files.folder.iterdir())


def test_a_part_is_a_file_that_is_named_by_its_content(files: ValueFiles, other: ValueFiles) -> None:
    files.add(PART, memoryview(DATA))
    facts = (files.folder / PART.digest).stat()
    other.add(PART, memoryview(DATA))
    assert other.read(PART) == DATA
    assert names(files) == [PART.digest]
    assert (files.folder / PART.digest).stat().st_ino == facts.st_ino, "it is written once"
    if os.name == "posix":
        assert (facts.st_mode & 0o777, files.folder.stat().st_mode & 0o777) == (0o600, 0o700)


def damaged_by(change: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        content = path.read_bytes()
        path.with_name("other").write_bytes(content)
        path.unlink()
        change(path)

    return damage


DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": lambda path: None,
    "another byte": lambda path: path.write_bytes(DATA[:-1] + b"x"),
    "cut": lambda path: path.write_bytes(DATA[:-1]),
    "longer": lambda path: path.write_bytes(DATA + b"x"),
    "zeros, as after a power cut": lambda path: path.write_bytes(bytes(len(DATA))),
    "empty": lambda path: path.touch(),
    "sparse": lambda path: os.truncate(os.open(path, os.O_WRONLY | os.O_CREAT), len(DATA)),
    "huge": lambda path: os.truncate(os.open(path, os.O_WRONLY | os.O_CREAT), 1 << 42),
    "a link to the right bytes": lambda path: path.symlink_to(path.with_name("other")),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a pipe": lambda path: os.mkfifo(path),
    "a folder": lambda path: path.mkdir(),
}


@pytest.mark.skipif(os.name != "posix", reason="pipes and links")
@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_file_is_never_read(kind: str, files: ValueFiles, other: ValueFiles) -> None:
    files.add(PART, memoryview(DATA))
    damaged_by(DAMAGES[kind])(files.folder / PART.digest)
    for store in (files, other):
        with pytest.raises(PartError):
            store.read(PART)
        assert not store.has(PART)
    if kind == "a folder":
        with pytest.raises(IsADirectoryError):
            files.add(PART, memoryview(DATA))
    else:  # the value is stored again, and is then correct
        files.add(PART, memoryview(DATA))
        assert other.read(PART) == DATA
    assert not [name for name in names(files) if name.endswith(".part")]


def test_a_name_that_is_no_digest_opens_nothing(files: ValueFiles, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(DATA)
    files.add(PART, memoryview(DATA))
    for name in ("../secret", "", ".", PART.digest.upper(), PART.digest[:-1], str(tmp_path / "secret")):
        with pytest.raises(PartError):
            files.read(Part(name, len(DATA)))


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_a_folder_that_is_a_link_is_neither_read_nor_written_nor_cleaned(files: ValueFiles, tmp_path: Path) -> None:
    elsewhere = ValueFiles(tmp_path / "elsewhere", OWNER)
    elsewhere.add(PART, memoryview(DATA))
    files.folder.symlink_to(elsewhere.folder)
    with pytest.raises(PartError):
        files.read(PART)
    with pytest.raises(NotADirectoryError):
        files.add(Part(hashlib.sha256(b"new").hexdigest(), 3), memoryview(b"new"))
    assert files.clean((), lambda owner: False) == (0, 0)
    assert names(elsewhere) == [PART.digest]


def test_only_unneeded_files_are_deleted(files: ValueFiles, tmp_path: Path) -> None:
    lock = ProcessLock(tmp_path / "owners")
    files.add(PART, memoryview(DATA))
    unneeded = Part(hashlib.sha256(b"old").hexdigest(), 3)
    files.add(unneeded, memoryview(b"old"))
    begun, left_behind = f"{lock.name}-0.part", f"{OWNER}-7.part"
    for name in (begun, left_behind, "notes.txt"):
        (files.folder / name).write_bytes(b"1234")
    freed = files.clean({PART.digest}, lambda owner: alive(tmp_path / "owners", owner))
    assert names(files) == sorted([PART.digest, begun, "notes.txt"])
    assert freed == (2, 7)
    lock.leave()
    assert files.clean({PART.digest}, lambda owner: alive(tmp_path / "owners", owner)) == (1, 4)


def test_a_part_that_was_cleaned_away_is_written_again(files: ValueFiles, other: ValueFiles) -> None:
    files.add(PART, memoryview(DATA))
    other.clean((), lambda owner: True)
    files.add(PART, memoryview(DATA))
    assert files.read(PART) == DATA


def test_a_tenth_of_the_disk_stays_free(files: ValueFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_files, "FREE", 2.0)
    with pytest.raises(NoRoom):
        files.add(PART, memoryview(DATA))
    assert names(files) == []
    files.add(PART, memoryview(DATA), fills=True)
    assert files.read(PART) == DATA


def test_a_part_of_unknown_size_is_complete_or_missing(files: ValueFiles) -> None:
    new, dropped = files.create(), files.create()
    for part in (new, dropped):
        part.write(DATA[:1000])
        part.write(DATA[1000:])
    assert new.part == dropped.part == PART
    dropped.drop()
    assert not files.has(PART)
    files.keep(new)
    new.drop()  # does nothing, because the file has its name already
    assert files.read(PART) == DATA
    assert names(files) == [PART.digest]


@pytest.mark.parametrize("year", [1970, 2100])
def test_no_clock_decides_what_is_read_and_what_is_deleted(
    year: int, files: ValueFiles, other: ValueFiles, tmp_path: Path
) -> None:
    lock = ProcessLock(tmp_path / "owners")
    files.add(PART, memoryview(DATA))
    begun, left_behind = files.folder / f"{lock.name}-0.part", files.folder / f"{OWNER}-7.part"
    for path in (begun, left_behind):
        path.write_bytes(b"1234")
    for path in files.folder.iterdir():
        os.utime(path, (year - 1970, (year - 1970) * 365 * 86_400))
    files.clean({PART.digest}, lambda owner: alive(tmp_path / "owners", owner))
    assert names(files) == sorted([PART.digest, begun.name])
    assert files.read(PART) == other.read(PART) == DATA
    lock.leave()


def test_a_part_that_changes_during_the_read_is_correct_or_an_error(files: ValueFiles, other: ValueFiles) -> None:
    data = bytes(range(256)) * 20_000
    part = Part(hashlib.sha256(data).hexdigest(), len(data))
    files.add(part, memoryview(data))
    path, ends = files.folder / part.digest, threading.Event()

    def change() -> None:
        while not ends.is_set():
            for start in (0, len(data) // 2, len(data) - 1):
                with path.open("r+b") as file:
                    file.seek(start)
                    before = file.read(1)
                    for byte in (b"?", before):
                        file.seek(start)
                        file.write(byte)
                        file.flush()

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(200):
            with contextlib.suppress(PartError):
                assert other.read(part) == data
    finally:
        ends.set()
        thread.join()
    assert other.read(part) == data


def test_a_folder_that_loses_a_file_is_an_error_or_a_missing_part(files: ValueFiles, other: ValueFiles) -> None:
    """A network folder may lose a file between two requests for it."""
    files.add(PART, memoryview(DATA))
    path, ends = files.folder / PART.digest, threading.Event()

    def lose() -> None:
        while not ends.is_set():
            path.unlink(missing_ok=True)

    thread = threading.Thread(target=lose)
    thread.start()
    try:
        for _ in range(300):
            try:
                files.add(PART, memoryview(DATA))
                assert other.read(PART) == DATA
            except (OSError, PartError):
                pass
    finally:
        ends.set()
        thread.join()
    files.add(PART, memoryview(DATA))
    assert other.read(PART) == DATA
    assert names(files) == [PART.digest], "nothing half-written is left"


def test_writers_of_one_part_do_not_disturb_each_other(files: ValueFiles, other: ValueFiles) -> None:
    ready = threading.Barrier(8)

    def write(store: ValueFiles) -> None:
        ready.wait()
        for _ in range(20):
            store.add(PART, memoryview(DATA))
            assert store.read(PART) == DATA
            (store.folder / PART.digest).unlink(missing_ok=True)

    def tolerant(store: ValueFiles) -> None:
        try:
            write(store)
        except (PartError, FileNotFoundError):  # another writer has deleted the file
            pass
        except BaseException as error:
            failures.append(error)

    failures = list[BaseException]()
    threads = [threading.Thread(target=tolerant, args=(store,)) for store in (files, other) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    files.add(PART, memoryview(DATA))
    assert other.read(PART) == DATA
    assert names(files) == [PART.digest]


@pytest.fixture(autouse=True)
def no_open_files() -> Iterator[None]:
    """Check that no file stays open."""
    if not Path("/proc/self/fd").exists():
        yield
        return
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # "sparse" opens one file
