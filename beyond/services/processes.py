"""Start processes with Monarch, call them, notice dead ones, replace and stop them.

Monarch notices a killed process after some seconds (3 to 10) and ends the call with a
SupervisionError; left unhandled, the same fault would end this process with a KeyboardInterrupt.
Calls check every half second whether their processes are still alive.
Children ignore Ctrl-C, which a terminal sends to all: the controller stops them. If the
controller itself is killed, the kernel ends its children (Monarch sets the parent-death signal).
Monarch logs to a file monarch_log.log in a folder of the user's name in the temporary folder.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import monarch.actor
import psutil
from monarch._rust_bindings.monarch_hyperactor.host_mesh import BootstrapCommand
from monarch._rust_bindings.monarch_hyperactor.supervision import SupervisionError
from monarch.actor import ActorError, this_host
from torch import Tensor

from beyond.services.config import Role
from beyond.services.messages import Group
from beyond.student.checks import HANGS
from lab15_run import TOP, counted

START = (
    "import signal, runpy; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "runpy.run_module('monarch._src.actor.bootstrap_main', run_name='__main__', alter_sys=True)"
)


# tqdm's lock, in a process that is terminated
QUIET = "ignore:resource_tracker:UserWarning"
START_SECONDS = 120.0  # importing torch in several processes at once, on a slow disk
# Monarch 0.7 waits 30 s for a process to connect. With mesh_proc_spawn_max_idle and its other
# limits raised it waits longer, but loses the answer that comes after 30 s. So we try again.
LATE = "a process did not start within 30 s (Monarch's limit): the machine is too busy or too slow"
UNSPAWNED = "error spawning proc mesh"  # Monarch's words for a process that was late
LOOK = 0.5  # seconds between two looks whether a process is still there


class Dead(RuntimeError):
    """A process has died, or does not answer.

    Args:
        text: which, and how.
        life: how often the replica had been restarted at the time of the call.
    """

    def __init__(self, text: str, life: int):
        super().__init__(text)
        self.life = life


def forgive_faults() -> None:
    """Keep Monarch from ending this process when one that it spawned dies; calls still fail."""
    monarch.actor.unhandled_fault_hook = lambda failure: None  # type: ignore[assignment]


class Replica:
    """The processes of one replica of a role, each with one actor.

    Args:
        name: of the actors.
        procs: how many processes.
        cls: the actor's class.
        args: its arguments, or a function that returns them for each start.
        timeout: seconds after which a call counts as lost.
        max_restarts: restarts in a row for the same call before a RuntimeError.
    """

    def __init__(self, name: str, procs: int, cls: Any, args: tuple | Callable[[], tuple],
                 timeout: float, max_restarts: int):
        self.name, self.procs, self.cls, self.args = name, procs, cls, args
        self.timeout, self.max_restarts = timeout, max_restarts
        self.pids: list[int] = []
        self.restarts = self.in_a_row = 0
        self.failed = ""  # the endpoint in which it died
        self.tell: Callable[[str], None] = lambda line: None
        self.lock = asyncio.Lock()
        self.mesh: Any = None
        self.actor: Any = None

    async def start(self) -> None:
        """Spawn the processes and wait until their actors are made.

        Raises:
            Dead: a process did not start in time, or is gone.
            Exception: what the actor's constructor raised, of its own type.
        """
        path = os.pathsep.join([str(TOP), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        env = {"PYTHONPATH": path, "HF_HUB_DISABLE_PROGRESS_BARS": "1", "PYTHONWARNINGS": QUIET}
        command = BootstrapCommand(sys.executable, None, ["-c", START], env)
        self.mesh = this_host().spawn_procs(
            per_host={"procs": self.procs}, name=self.name, bootstrap_command=command)
        args = self.args() if callable(self.args) else self.args
        self.actor = self.mesh.spawn(self.name, self.cls, *args)
        try:
            answers = await self._ask("pid", timeout=max(START_SECONDS, self.timeout))
        except ValueError as error:
            if UNSPAWNED not in str(error):
                raise
            raise Dead(f"{self.name}: {LATE}", self.restarts) from None
        self.pids = [pid for pid, _ in answers]
        if any(parent != os.getpid() for _, parent in answers):
            raise RuntimeError(f"{self.name} was not spawned by this process's Monarch host")

    async def begin(self) -> None:
        """Start for the first time; restart a process that is late.

        Raises:
            RuntimeError: it has been tried too often.
        """
        try:
            await self.start()
        except Dead as why:
            await self.restart(why)

    async def ask(self, endpoint: str, *args: Any) -> list:
        """Call an endpoint of all processes; return their answers in order.

        Raises:
            Dead: a process is gone, or nothing came within the timeout.
            Exception: what the endpoint raised, of its own type.
        """
        if not self.pids:
            raise Dead(f"{self.name}: its start was broken off", self.restarts)
        try:
            answers = await self._ask(endpoint, *args)
        except Dead:
            self.failed = endpoint
            raise
        if endpoint == self.failed:  # others carry little information: the cause may be in this one
            self.in_a_row, self.failed = 0, ""
        return answers

    async def _ask(self, endpoint: str, *args: Any, timeout: float | None = None) -> list:
        timeout = self.timeout if timeout is None else timeout
        life, left = self.restarts, timeout
        call = getattr(self.actor, endpoint).call(*args).as_asyncio()
        try:
            while not call.done():
                await asyncio.wait({call}, timeout=min(LOOK, left))
                left -= LOOK
                gone = [pid for pid in self.pids if not is_child(pid)]
                if not call.done() and (gone or left <= 0):
                    why = f"process {gone[0]} is gone" if gone else (
                        f"no answer to {endpoint} within {timeout:g} s{hint(endpoint)}")
                    raise Dead(f"{self.name}: {why}", life)
            return [answer for _, answer in call.result().items()]
        except ActorError as error:
            raise error.exception from None
        except SupervisionError as error:
            raise Dead(f"{self.name}: {last_line(error)}", life) from None
        finally:
            call.cancel()

    async def restart(self, why: Dead) -> None:
        """Replace the processes with new ones, whose actors are as at the start.

        Several calls may have found the same processes dead; the first replaces them.

        Raises:
            RuntimeError: it has been tried too often.
        """
        async with self.lock:
            while why.life == self.restarts:
                self.restarts += 1
                self.in_a_row += 1
                if self.in_a_row > self.max_restarts:
                    raise RuntimeError(f"gave up after {counted(self.max_restarts, 'restart')}; "
                                       f"{why}")
                self.tell(f"{why}; starting it again")
                try:
                    await self.stop()
                    await self.start()
                except Dead as error:
                    why = error
                except asyncio.CancelledError:  # the trainer died, too; the next call restarts it
                    self.in_a_row -= 1
                    raise

    async def stop(self) -> None:
        """Stop the processes; kill those that hang."""
        if self.mesh is None:
            return
        mesh, self.mesh, pids, self.pids = self.mesh, None, self.pids, []
        for pid in pids:
            if is_child(pid):  # they have nothing to lose, and end faster than when asked
                os.kill(pid, signal.SIGTERM)
        with contextlib.suppress(Exception):
            await asyncio.wait_for(mesh.stop().as_asyncio(), 10)
        for pid in pids:
            if is_child(pid):
                os.kill(pid, signal.SIGKILL)


def hint(endpoint: str) -> str:
    """Return the likely cause if a call of an endpoint does not return."""
    loop = f"an endless loop in {HANGS[endpoint]}, or " if endpoint in HANGS else ""
    return f" ({loop}a slow machine: raise timeout)"


def is_child(pid: int) -> bool:
    """Return whether a process is alive and a child of this one (pids are used again)."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.ppid() == os.getpid()
    except psutil.Error:
        return False


def last_line(error: BaseException) -> str:
    """Return what went wrong, in one line: the exception at the end of a traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Error: " in line or "failed:" not in line]
    return (told or lines or [type(error).__name__])[-1][:200]


class Pool:
    """The replicas of a stateless role: calls rotate among them, dead ones are replaced.

    Args:
        name: of the role.
        role: processes of each replica.
        cls: of the actors.
        args: the actors' arguments, one tuple for each replica.
        timeout, max_restarts: see Replica.
    """

    def __init__(self, name: str, role: Role, cls: Any, args: list[tuple], timeout: float,
                 max_restarts: int):
        self.members = [Replica(f"{name}{i}", role.procs, cls, each, timeout, max_restarts)
                        for i, each in enumerate(args)]
        self.next = 0

    async def ask(self, endpoint: str, *args: Any) -> list:
        """Return the answers of the next replica's processes, joined: each gave a list."""
        member = self.members[self.next]
        self.next = (self.next + 1) % len(self.members)
        while True:
            try:
                return [item for part in await member.ask(endpoint, *args) for item in part]
            except Dead as why:
                await member.restart(why)


class MonarchGenerator:
    """A Generator that restarts its dead processes transparently.

    Every answer includes the random state. A replacement continues from it, with the same weights,
    so that a reproducible run gives the same numbers whether or not a process died.

    Args:
        replica: of GeneratorActor.
    """

    def __init__(self, replica: Replica):
        self.replica = replica
        self.random: list[Tensor] | None = None
        self.newest: tuple[int, dict[str, Tensor]] | None = None

    async def generate(self, prompts: list[str], answers: list[str], G: int, temperature: float,
                       number: int) -> list[Group]:
        """Return groups; see messages.Generator."""
        parts = await self._ask("generate", prompts, answers, G, temperature, number)
        self.random = [state for _, state in parts]
        return [group for groups, _ in parts for group in groups]

    async def update_weights(self, version: int, state: dict[str, Tensor]) -> None:
        """Sample with these weights from now on."""
        self.newest = version, state
        await self._ask("update_weights", version, state)

    async def learn_random(self) -> None:
        """Fetch the initial random state."""
        if self.random is None:
            self.random = await self._ask("random_state")

    async def set_random(self, states: list[Tensor] | None) -> None:
        """Continue with the random state of a checkpoint."""
        self.random = states
        if states is not None:
            await self._ask("set_random", states)

    async def _ask(self, endpoint: str, *args: Any) -> list:
        """Return the answers of all processes; replace those that die and call them again."""
        while True:
            try:
                return await self.replica.ask(endpoint, *args)
            except Dead as why:
                await self._replace(why)

    async def _replace(self, why: Dead) -> None:
        while True:
            await self.replica.restart(why)
            try:
                if self.newest is not None:
                    await self.replica.ask("update_weights", *self.newest)
                if self.random is not None:
                    await self.replica.ask("set_random", self.random)
                return
            except Dead as error:
                why = error
