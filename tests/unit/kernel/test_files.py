"""Nothing leaves its root: by openat2, and by the descriptors of folders where that is refused."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.errors import Unavailable
from numaudit.kernel import files, in_root
from numaudit.kernel.host import Host, read_text
from numaudit.kernel.tracing import syscall

WAYS = ["openat2", errno.ENOSYS, errno.EPERM, errno.EAGAIN, "unknown machine"]


def _refuse(monkeypatch: pytest.MonkeyPatch, why: int | str) -> None:
    """As an older kernel, a seccomp profile or a rename at this moment does."""
    call = syscall.call

    def refused(name: syscall.Name, *arguments: int) -> int:
        if name != "openat2":
            return call(name, *arguments)
        raise Unavailable("unknown") if isinstance(why, str) else OSError(why, os.strerror(why))

    if why != "openat2":
        monkeypatch.setattr(syscall, "call", refused)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    _refuse(monkeypatch, request.param)
    before = list(Path("/proc/self/fd").iterdir())
    yield
    assert list(Path("/proc/self/fd").iterdir()) == before  # no descriptor is left


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A captured tree with a secret beside it, as it is on the reader's machine."""
    tree = tmp_path / "above/tree"
    (tree / "etc/deep/deeper").mkdir(parents=True)
    (tmp_path / "above/secret").write_text("of the reader")
    (tree / "secret").write_text("of the tree")
    (tree / "etc/file").write_text("a file")
    return Host(tree).root


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("target", ["/secret", "../../../../secret", "/../secret", "deep/../../../secret", "//secret"])
def test_a_link_that_points_out_of_the_tree_ends_in_it(root: Path, target: str) -> None:
    (root / "etc/link").symlink_to(target)
    (root / "etc/link2").symlink_to("link")
    for link in ("etc/link", "etc/link2", "etc/deep/deeper/../../link"):
        assert read_text(root / link) == "of the tree"
        assert os.path.samestat(files.status(root / link), (root / "secret").stat())
        assert files.real_path(root / link) == str(root / "secret")
    assert files.link_target(root / "etc/link") == target and files.is_link(root / "etc/link")


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", ["../secret", "etc/../../secret", "../../above/secret", "etc/up/secret"])
def test_a_path_with_two_points_ends_at_the_root(root: Path, name: str) -> None:
    (root / "etc/up").symlink_to("../" * 30)
    inside = name != "../../above/secret"
    assert files.exists(f"{root}/{name}") == inside
    if inside:
        assert read_text(f"{root}/{name}") == "of the tree"
        assert files.real_path(f"{root}/{name}") == str(root / "secret")
    assert sorted(files.names(f"{root}/../..")) == ["etc", "secret"]


@pytest.mark.usefixtures("way")
def test_a_link_to_a_folder_outside_lists_nothing_of_it(root: Path, tmp_path: Path) -> None:
    (root / "out").symlink_to(tmp_path / "above")
    assert files.glob(root, "out/*") == [] and not files.is_folder(root / "out")
    with pytest.raises(FileNotFoundError):
        files.names(root / "out")
    assert files.glob(root, "*/file") == [root / "etc/file"]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("length", [40, 41])
def test_forty_links_are_followed_and_no_more(root: Path, length: int) -> None:
    (root / "0").symlink_to("secret")
    for number in range(1, length):
        (root / str(number)).symlink_to(str(number - 1))
    if length == 40:
        assert read_text(root / "39") == "of the tree"
    else:
        with pytest.raises(OSError, match="levels of symbolic links"):
            read_text(root / "40")


@pytest.mark.usefixtures("way")
def test_a_link_to_itself_is_an_error_and_no_file(root: Path) -> None:
    (root / "self").symlink_to("self")
    with pytest.raises(OSError, match="levels of symbolic links"):
        read_text(root / "self")
    assert not files.exists(root / "self") and files.is_link(root / "self")


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", ["self/root/etc/passwd", "self/cwd", "self/exe", "self/fd/0"])
def test_a_link_of_procfs_that_jumps_is_not_followed(name: str) -> None:
    with pytest.raises(OSError, match="levels of symbolic links"):
        os.close(in_root.open_in_root("/proc", name, os.O_RDONLY))
    for text in ("self/stat", "thread-self/stat", "mounts"):
        os.close(in_root.open_in_root("/proc", text, os.O_RDONLY))


@pytest.mark.usefixtures("way")
def test_a_name_with_a_nul_byte_is_no_shorter_one(root: Path) -> None:
    with pytest.raises(ValueError, match="null byte"):
        read_text(f"{root}/secret\0.txt")


@pytest.mark.usefixtures("way")
def test_an_error_names_the_file_as_open_does(root: Path) -> None:
    for name, kind in (("missing", FileNotFoundError), ("secret/x", NotADirectoryError)):
        with pytest.raises(kind) as caught:
            read_text(root / name)
        assert caught.value.filename == str(root / name)
        assert caught.value.strerror == os.strerror(caught.value.errno or 0)


@pytest.mark.usefixtures("way")
def test_a_folder_that_becomes_a_link_meanwhile_never_leads_out(root: Path, tmp_path: Path) -> None:
    """As whoever owns the folder may exchange them at any time."""
    (root / "x").mkdir()
    (root / "x/secret").write_text("of the tree")
    (root / "y").symlink_to(tmp_path / "above")
    ended = Event()

    def exchange() -> None:
        while not ended.is_set():
            (root / "x").rename(root / "z")
            (root / "y").rename(root / "x")
            (root / "x").rename(root / "y")
            (root / "z").rename(root / "x")

    thread = Thread(target=exchange)
    thread.start()
    try:
        seen = {""}
        for _ in range(100_000):
            seen.add(_text_or_error(root / "x/secret"))
            if len(seen) == 3:
                break
    finally:
        ended.set()
        thread.join()
    assert seen == {"", "of the tree", "FileNotFoundError"}


def _text_or_error(path: Path) -> str:
    try:
        return read_text(path)
    except OSError as error:
        return type(error).__name__


def test_the_running_host_has_its_own_links() -> None:
    assert os.path.samestat(files.status("/proc/self/root"), Path("/").stat())
    os.close(files.open_namespace("/proc/self/ns/net"))


NAMES = st.sampled_from(["a", "b", "c"])
TARGETS = st.lists(st.sampled_from(["a", "b", "c", "..", ".", ""]), min_size=1, max_size=5).map("/".join)
TREES = st.dictionaries(st.lists(NAMES, min_size=1, max_size=3).map("/".join), st.none() | TARGETS, max_size=12)
FLAGS = st.sampled_from([os.O_RDONLY, os.O_PATH, os.O_PATH | os.O_NOFOLLOW, os.O_RDONLY | os.O_DIRECTORY,
    os.O_RDONLY | os.O_NOFOLLOW])  # fmt: skip


@given(TREES, st.lists(TARGETS, min_size=1, max_size=8), FLAGS)
def test_any_path_in_any_tree_is_the_same_by_both_ways(
    tree: dict[str, str | None], paths: list[str], flags: int
) -> None:
    """Path -> the target of a link, or None for a file; what cannot be made is left out."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, target in tree.items():
            try:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                if target is None:
                    (root / name).touch(exist_ok=False)
                else:
                    (root / name).symlink_to(target or ".")
            except (FileExistsError, NotADirectoryError, RuntimeError, OSError):
                continue
        inside = {(one.stat(follow_symlinks=False).st_dev, one.stat(follow_symlinks=False).st_ino)
            for one in (root, *root.rglob("*"))}  # fmt: skip
        for path in paths:
            with pytest.MonkeyPatch.context() as patched:
                by_kernel = _opened(folder, path.strip("/"), flags)
                _refuse(patched, errno.ENOSYS)
                assert _opened(folder, path.strip("/"), flags) == by_kernel, (tree, path)
            assert isinstance(by_kernel, int) or by_kernel in inside


def _opened(root: str, below: str, flags: int) -> int | tuple[int, int]:
    """The file's device and inode, or the error's number."""
    try:
        descriptor = in_root.open_in_root(root, below, flags | os.O_CLOEXEC)
    except OSError as error:
        return error.errno or 0
    try:
        found = os.fstat(descriptor)
        return found.st_dev, found.st_ino
    finally:
        os.close(descriptor)
