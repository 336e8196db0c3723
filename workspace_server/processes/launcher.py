"""Launches a child process: restricts itself, then replaces itself by the child's program (Linux only).

Run as `python -I -S launcher.pyc setting… -- argv…`. Settings hold no secrets; the environment is passed on
unchanged. It imports almost nothing, because every child waits for it. Settings: `parent=PID` must be alive,
`cwd=FOLDER`, `ctype=VALUE` the LC_CTYPE of the child, `confined=1`, those of
`Confinement.launcher_arguments`, and `status=FD`: receives a dot, then the error; success closes it.
"""

from __future__ import annotations

import ctypes
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_SIGKILL, _SIGPIPE, _SIGXFSZ = 9, 13, 25
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
# Rights of Landlock, from the kernel's `linux/landlock.h`.
_EXECUTE = 1 << 0
_READ_FOLDER = 1 << 3
_READ = _EXECUTE | 1 << 2 | _READ_FOLDER  # execute, read a file, read a folder
_FILE_RIGHTS = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # what can be granted on a single file
_RIGHTS_BY_VERSION = {
    1: (1 << 13) - 1,
    2: (1 << 14) - 1,
    3: (1 << 15) - 1,
    4: (1 << 15) - 1,
    5: (1 << 16) - 1,
}
_BIND_CONNECT = 1 << 0 | 1 << 1
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1 << 0, 1 << 1
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full")  # that anybody may write
_SOURCES = ("/dev/random", "/dev/urandom")
_PATH: int = getattr(os, "O_PATH", 0) | getattr(os, "O_CLOEXEC", 0)  # type checkers see every system
_OPENAT2, _AT_FDCWD, _RESOLVE_NO_SYMLINKS = 437, -100, 4

_NEW_MOUNTS, _NEW_USERS, _NEW_NETWORK = 0x00020000, 0x10000000, 0x40000000
_BIND, _RECURSIVE, _SLAVE = 1 << 12, 1 << 14, 1 << 19
_MOUNT_SETATTR, _CURRENT_FOLDER, _WITH_ALL_BELOW, _ATTRIBUTE_READ_ONLY = 442, -100, 0x8000, 1

_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scope", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("rights", ctypes.c_uint64), ("folder", ctypes.c_int32)]


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user_space")]


def _syscall(*arguments: object) -> int:
    result: int = _libc.syscall(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def landlock_version() -> int:
    """The Landlock ABI version of this kernel; 0 if there is none."""
    try:
        return _syscall(_CREATE_RULESET, None, 0, 1)
    except OSError:
        return 0


def _apply_landlock(places: dict[str, list[str]], program: str, network: bool) -> None:
    version = landlock_version()
    if not version:
        return
    rights = _RIGHTS_BY_VERSION[min(version, 5)]
    attributes = _Ruleset(
        rights,
        _BIND_CONNECT if not network and version >= 4 else 0,
        (_SCOPE_SIGNALS | _SCOPE_ABSTRACT_SOCKETS) if version >= 6 else 0,
    )
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = _syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), 0)
    # rights can only be added: they are given to everything beside the folders that lack them
    unexecuted, unread = [*places["unexecuted"], *places["cache"]], places["unread"]
    reading = rights & _READ & ~(_EXECUTE if unexecuted else 0)
    for path in (*_SOURCES, *places["read"], *(_beside(unread) if unread else ())):
        _allow(ruleset, path, reading)
    if unread:
        _allow(
            ruleset, "/", _READ_FOLDER
        )  # names are no secret, and servers look for settings in all parents
    for path in (*_beside(unexecuted), program) if unexecuted else ():
        _allow(ruleset, path, _EXECUTE)
    for path in (*_DEVICES, *places["write"]):
        _allow(ruleset, path, rights)
    for path in places["cache"]:
        _allow(ruleset, path, rights & ~_EXECUTE, _open_unlinked)
    _syscall(_RESTRICT_SELF, ruleset, 0)


def _beside(folders: list[str], parent: str = "") -> Iterator[str]:
    """What lies beside these folders, in all their parents; without links, which may lead into one."""
    start = f"{parent}/"
    names = {folder.removeprefix(start).partition("/")[0] for folder in folders if folder.startswith(start)}
    try:
        with os.scandir(parent or "/") as entries:
            names |= {entry.name for entry in entries if not entry.is_symlink()}
    except OSError:
        pass  # it may only be entered
    for path in (f"{parent}/{name}" for name in names):
        if any(folder.startswith(f"{path}/") for folder in folders if path not in folders):
            yield from _beside(folders, path)
        elif path not in folders:
            yield path


def _open(path: str) -> int:
    return os.open(path, _PATH)


def _open_unlinked(path: str) -> int:
    how = (ctypes.c_uint64 * 3)(_PATH | os.O_DIRECTORY, 0, _RESOLVE_NO_SYMLINKS)
    return _syscall(_OPENAT2, _AT_FDCWD, os.fsencode(path), ctypes.byref(how), ctypes.c_size_t(24))


def _allow(ruleset: int, path: str, rights: int, opened: Callable[[str], int] = _open) -> None:
    try:
        folder = opened(path)
    except OSError:
        return  # a missing path needs no rule
    if os.fstat(folder).st_mode & 0o170000 != 0o040000:
        rights &= _FILE_RIGHTS
    beneath = _Beneath(rights, folder)
    _syscall(_ADD_RULE, ruleset, 1, ctypes.byref(beneath), 0)
    os.close(folder)


def _fix(pinned: list[str], fixed: list[str]) -> None:
    """Make files read-only for this process and all it starts, by mounts that only they see.

    Landlock cannot except a folder from a rule. What is mounted on cannot be moved or replaced, either.
    """
    for path in (*pinned, *fixed):
        _mount(path, path, _BIND | _RECURSIVE)
    for path in fixed:
        _set_attributes(path, _MountAttributes(set=_ATTRIBUTE_READ_ONLY), 0)


def _fix_rest(writable: list[str]) -> None:
    """Make all files but these read-only, as `_fix` does."""
    places = [path for path in writable if _exists(path)]
    for path in places:  # only what is mounted by itself can differ from what lies around it
        _mount(path, path, _BIND | _RECURSIVE)
    _set_attributes("/", _MountAttributes(set=_ATTRIBUTE_READ_ONLY), _WITH_ALL_BELOW)
    for path in places:
        _set_attributes(path, _MountAttributes(clear=_ATTRIBUTE_READ_ONLY), _WITH_ALL_BELOW)


def _set_attributes(path: str, attributes: _MountAttributes, flags: int) -> None:
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    _syscall(_MOUNT_SETATTR, _CURRENT_FOLDER, os.fsencode(path), flags, ctypes.byref(attributes), size)


def _leave_parent(settings: dict[str, str], pairs: list[tuple[str, str]]) -> None:
    """Enter namespaces of its own for what Landlock cannot do, where one of the settings asks for it."""
    names = ("pinned", "fixed", "hidden", "write")
    places = {name: [value for key, value in pairs if key == name] for name in names}
    is_rest_fixed = "rest_fixed" in settings
    mounts = _NEW_MOUNTS if places["fixed"] or places["hidden"] or is_rest_fixed else 0
    if kinds := mounts | (_NEW_NETWORK if "offline" in settings else 0):
        _leave_namespaces(kinds)
    if is_rest_fixed:  # first: it makes all writable again that lies in the writable places
        _fix_rest(places["write"])
    if places["fixed"]:
        _fix(places["pinned"], places["fixed"])
    for folder in places["hidden"]:
        _mount("none", folder, 0, "tmpfs")


def _leave_namespaces(kinds: int) -> None:
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(kinds):  # needs a right that a user has only in a namespace of users
        _check(_libc.unshare(kinds | _NEW_USERS))
        maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
        for name, text in maps.items():
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123  pathlib is slow to load
                file.write(text)
    if kinds & _NEW_MOUNTS:
        _mount("none", "/", _RECURSIVE | _SLAVE)  # no mount of ours is seen outside


def _mount(source: str, place: str, flags: int, kind: str = "none") -> None:
    names = map(os.fsencode, (source, place, kind))
    _check(_libc.mount(*names, ctypes.c_ulong(flags), None))


def _check(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _limit(name: str, value: int) -> None:
    import resource  # noqa: PLC0415  few children need it

    number = getattr(resource, "RLIMIT_" + name)
    hard = resource.getrlimit(number)[1]
    grace = 1 if name == "CPU" else 0  # SIGXCPU tells the reason, SIGKILL would not
    bounds = [x if hard == resource.RLIM_INFINITY else min(x, hard) for x in (value, value + grace)]
    resource.setrlimit(number, (bounds[0], bounds[1]))


def _become(argv: list[str]) -> None:
    """Execute the command in place of this process. Never returns; raises OSError on failure."""
    program = argv[0]
    if "/" in program:
        os.execve(program, argv, os.environb)
    folders = os.environb.get(b"PATH", b"").split(b":")
    refused: OSError = FileNotFoundError(2, os.strerror(2))
    for folder in folders:
        if folder.startswith(b"/"):
            try:
                os.execve(folder + b"/" + os.fsencode(program), argv, os.environb)
            except (FileNotFoundError, NotADirectoryError) as error:
                if _exists(error.filename):
                    raise
            except OSError as error:
                refused = error
    raise refused


def _exists(path: str | bytes) -> bool:
    return os.path.exists(path)  # noqa: PTH110  pathlib is slow to load


def _restore_signals() -> None:
    # `signal` without its enumerations, whose import takes longer than everything else here
    import _signal  # noqa: PLC0415  only children come here

    for number in (_SIGPIPE, _SIGXFSZ):  # Python ignores them, and the child would inherit that
        _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def _restore_ctype(value: str | None) -> None:
    """The interpreter sets LC_CTYPE where the locale is C (PEP 538)."""
    if value is None:
        os.environb.pop(b"LC_CTYPE", None)
    else:
        os.environ["LC_CTYPE"] = value


def _close_descriptors(keep: int) -> None:
    os.closerange(3, keep)
    os.closerange(max(keep, 2) + 1, 1 << 20)


def _die_with(parent: str | None) -> None:
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL)
    if parent is not None and os.getppid() != int(parent):
        os._exit(1)  # the parent died before the signal was set


def _confine(settings: dict[str, str], pairs: list[tuple[str, str]], program: str) -> None:
    if "confined" in settings:
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        _limit("CORE", 0)
        kinds = ("write", "read", "unread", "cache", "unexecuted")
        places = {kind: [value for key, value in pairs if key == kind] for kind in kinds}
        _apply_landlock(places, program, settings["network"] == "1")
        for key, value in pairs:
            if key == "limit":
                name, _, number = value.partition(":")
                _limit(name, int(number))


def _prctl(option: int, value: int) -> None:
    _check(_libc.prctl(option, value, 0, 0, 0))


def _error_text(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError) and error.filename and _exists(error.filename):
        return "the interpreter its first line names is missing"
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__


def main(arguments: list[str]) -> None:
    """Apply the settings and execute the command; report the failed step and its error to `status`."""
    split = arguments.index("--")
    pairs = [(argument.partition("=")[0], argument.partition("=")[2]) for argument in arguments[:split]]
    settings = dict(pairs)
    status = int(settings.get("status", 2))
    if status > 2:
        os.set_inheritable(status, False)
    step = "descriptors"
    os.write(status, b".")
    try:
        _close_descriptors(status)
        _die_with(settings.get("parent"))
        step = "namespaces"
        _leave_parent(settings, pairs)
        step = "folder"  # only now: a folder that was entered before would be below the mounts
        os.chdir(settings.get("cwd", "/"))
        step = "limits"
        _confine(settings, pairs, arguments[split + 1])
        _restore_signals()
        _restore_ctype(settings.get("ctype"))
        step = "command"
        _become(arguments[split + 1 :])
    except BaseException as error:  # noqa: BLE001  reported to the parent
        os.write(status, f"{step}:{_error_text(error)}".encode("utf-8", "replace"))
        os._exit(127)


if __name__ == "__main__":
    main(sys.argv[1:])
