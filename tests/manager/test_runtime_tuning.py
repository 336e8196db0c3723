"""The C library is asked to keep memory where there is one that can be asked; nowhere does it hurt."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from manager import runtime_tuning

IS_GLIBC = platform.libc_ver()[0] == "glibc"
MIB = 1024 * 1024
PROGRAM = """
from manager import runtime_tuning
runtime_tuning.keep_freed_memory()
freed, kept = [], []
for _ in range(300):
    freed.append(bytearray(100_000))
    kept.append(bytearray(1_000))
full = runtime_tuning.resident_bytes()
freed.clear()
print(full, runtime_tuning.resident_bytes(), runtime_tuning.return_freed_memory(), runtime_tuning.resident_bytes())
"""
"""Frees 30 MB that glibc keeps, because small pieces between them are in use."""

THREADS = """
import ctypes, sys, tempfile, threading
from manager import runtime_tuning
if sys.argv[1]:
    assert runtime_tuning.use_one_heap()
done = threading.Barrier(4)
pieces = []
def work():
    pieces.append(bytes(10_000))
    done.wait()
for thread in (threads := [threading.Thread(target=work) for _ in range(4)]):
    thread.start()
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
with tempfile.NamedTemporaryFile() as file:
    stream = ctypes.c_void_p(libc.fopen(file.name.encode(), b"w"))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    print(file.read().count(b"<heap "))
"""
"""Prints how many heaps there are after four threads have allocated at the same time: malloc_info(3)."""


def test_glibc_takes_the_bounds_and_others_are_left_alone() -> None:
    assert runtime_tuning.keep_freed_memory() is IS_GLIBC


@pytest.mark.skipif(not IS_GLIBC, reason="only glibc can be asked")
@pytest.mark.parametrize("is_one_heap", [True, False])
def test_threads_share_one_heap_once_that_is_asked_for(is_one_heap: bool) -> None:
    said = subprocess.run(
        [sys.executable, "-I", "-c", THREADS, "x" * is_one_heap], capture_output=True, text=True, check=True
    )
    assert (said.stdout == "1\n") is is_one_heap, said.stdout


@pytest.mark.skipif(not IS_GLIBC, reason="only glibc can be asked")
def test_freed_memory_between_pieces_in_use_goes_back_to_the_system() -> None:
    said = subprocess.run([sys.executable, "-I", "-c", PROGRAM], capture_output=True, text=True, check=True)
    full, kept, returned, left = said.stdout.split()
    assert returned == "True"
    assert int(full) - int(kept) < 10 * MIB, "the program shows nothing: the memory is gone already"
    assert int(kept) - int(left) > 20 * MIB


class Process:
    """A process whose memory is set by the test, of which a trim returns all but `used`."""

    def __init__(self) -> None:
        self.in_use = 0
        self.resident = self.used = 50 * MIB
        self.trims = 0
        self.worked_s = 0.0
        self.freed = runtime_tuning.FreedMemory(
            lambda: self.in_use, lambda: self.resident, self.trim, lambda: self.worked_s
        )

    def trim(self) -> None:
        self.trims += 1
        self.resident = self.used

    def grown_to(self, mib: int, worked_s: float = 1.0) -> int:
        """How often memory was returned after the process has worked and has grown to so many MiB."""
        self.resident = mib * MIB
        self.worked_s += worked_s
        self.freed.look()
        return self.trims


def test_memory_is_returned_once_it_has_grown_and_no_large_body_is_held() -> None:
    process = Process()
    assert process.grown_to(50) == 0
    process.in_use = MIB
    assert process.grown_to(90) == 0
    process.in_use = 0
    assert process.grown_to(90) == 1
    assert process.grown_to(50) == 1
    assert process.grown_to(57) == 1
    assert process.grown_to(58) == 2


def test_memory_that_is_used_is_not_looked_for_again() -> None:
    process = Process()
    process.grown_to(50)
    process.used = 90 * MIB
    assert [process.grown_to(90) for _ in range(3)] == [1, 1, 1]
    assert process.grown_to(60) == 1
    assert process.grown_to(70) == 2, "what was used is free again, and it grew anew"


def test_a_quiet_process_returns_the_little_that_it_has_freed() -> None:
    process = Process()
    assert process.grown_to(50) == 0
    assert process.grown_to(53) == 0, "it works"
    process.in_use = MIB
    assert process.grown_to(53, worked_s=0.01) == 0, "a large body is held"
    process.in_use = 0
    assert process.grown_to(53, worked_s=0.01) == 1
    assert process.grown_to(50, worked_s=0.01) == 1, "there is nothing to return"
