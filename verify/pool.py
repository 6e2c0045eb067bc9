"""A pool of single-threaded processes that hands results back one by one, survives Ctrl-C, and says so when a worker is killed."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from typing import TypeVar

from verify.errors import WorkerDied

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
AHEAD = 4
"""Tasks handed out per worker: enough that none waits, few enough that an interruption loses little."""

T = TypeVar("T")
R = TypeVar("R")


def execute(tasks: Sequence[T], jobs: int, done: Callable[[T, R], None], work: Callable[[T], R]) -> None:
    """Run `work` (a function of a module) on every task in `jobs` processes and hand each result to `done` in this one.

    With one job, or one task, everything happens in this process.

    Raises:
        WorkerDied: if a process was killed. KeyboardInterrupt: after the workers were ended; what `done` received is kept.
    """
    if jobs <= 1 or len(tasks) <= 1:
        for task in tasks:
            done(task, work(task))
        return
    workers = min(jobs, len(tasks))
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker)
    running: dict[Future[R], T] = {}
    try:
        with _single_threaded(), _interrupts_held():
            for task in tasks[:workers]:
                running[pool.submit(work, task)] = task
        for task in tasks[workers:]:
            if len(running) >= AHEAD * workers:
                _collect(running, done)
            running[pool.submit(work, task)] = task
        while running:
            _collect(running, done)
        pool.shutdown()
    except BaseException as error:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            raise WorkerDied(
                "a worker process was ended from outside (killed, or out of memory); what was finished is kept: "
                "use --resume, with fewer --jobs if memory is short"
            ) from None
        raise


def _collect(running: dict[Future[R], T], done: Callable[[T, R], None]) -> None:
    finished, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in finished:
        done(running.pop(future), future.result())


@contextlib.contextmanager
def _single_threaded() -> Iterator[None]:
    """Processes started inside use one thread each: libraries read these variables when they are loaded."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Processes started inside never see Ctrl-C (they inherit the mask); the parent sees it a moment later and ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A killed parent must not leave workers behind."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)
