"""A study walked from its start to its last update, over the memory and disks of a machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pcqc.planning.memory import RoleMemory, role_memories, roles_of, served
from pcqc.planning.storage import models_gib, storage, sync_gib
from pcqc.planning.work import fine_tunings, trained
from pcqc.study import Method, Study


class Full(Exception):
    """Something does not fit."""


@dataclass
class Room:
    """GiB of one kind of memory or disk, and what lies there."""

    name: str
    capacity: float
    held: dict[str, float] = field(default_factory=dict)

    def put(self, what: str, gib: float) -> None:
        """Add something; `Full` if it does not fit."""
        assert what not in self.held, what
        self.held[what] = gib
        if sum(self.held.values()) > self.capacity + 1e-6:
            sizes = ", ".join(f"{name} {size:.1f}" for name, size in self.held.items())
            raise Full(f"{self.name} has {self.capacity:.1f} GiB: {sizes}")

    def drop(self, *names: str) -> None:
        for name in names:
            del self.held[name]

    @contextmanager
    def holding(self, what: str, gib: float) -> Iterator[None]:
        """Something that lies there inside the context."""
        self.put(what, gib)
        yield
        self.drop(what)


@dataclass
class Machine:
    """A node; all its devices hold the same, so one stands for them."""

    device: Room
    host: Room
    shm: Room
    disk: Room


class Walk:
    """The phases of a study in the order in which jobs go through them.

    Args:
        study: whose roles are on all devices of one node.
        machine: where.
        activations: measured GiB of a micro-batch, in place of the plan's.
    """

    def __init__(self, study: Study, machine: Machine, activations: float):
        self.study, self.machine, self.activations = study, machine, activations
        self.roles = {role.role: role for role in role_memories(study)}
        count = study.placement.devices_per_node
        assert {len(role.devices) for role in self.roles.values()} == {count}
        self.sizes, self.updates, self.count = storage(study), 0, count

    def run(self) -> None:
        """All of it; servers run from the beginning."""
        for role in self.roles:
            if role in ("patient", "scorer") and served(self.study, role):
                self._start_engine(self.roles[role])
        self._fine_tune()
        # The largest states come last, when most lies on the disk.
        for name, method in sorted(trained(self.study).items(), key=lambda one: bool(one[1].tree)):
            for letter in method.runs:
                self._train(f"{name} {letter}", method)

    def _fine_tune(self) -> None:
        """Courses of SFT, in one job: the first is still held during the second."""
        self.machine.disk.put("models", models_gib(self.study))
        courses = list(fine_tunings(self.study))
        for course in courses:
            self._load(course)
            self._update(course)
            for old in (None, f"state of {course}"):
                self._save(f"state of {course}", self.sizes["state_gib"], bool(old))
        for course in courses:
            self._forget(course)

    def _train(self, run: str, method: Method) -> None:
        """A run of RL: learner, critic, engines, then its updates."""
        learners = ["learner", "critic"] if method.tree else ["learner"]
        for learner in learners:
            self._load(learner)
        own = [r for r in roles_of(method) if r not in learners and not served(self.study, r)]
        for role in own:
            self._start_engine(self.roles[role])
            self._sleep(role)
        rl, state = self.study.rl, self.sizes["state_gib"]
        state += self.sizes["critic_state_gib"] if method.tree else 0.0
        for update in range(1, method.updates + 1):
            self._roll_out(own)
            for learner in learners:
                self._update(learner)
            last = update == method.updates
            if last or update % rl.checkpoint_every == 0:
                self.machine.disk.put(f"{run} at {update}", self.sizes["checkpoint_gib"])
                self._roll_out(own)
            if last or update % rl.save_every == 0:
                self._save(f"state of {run}", state, update > rl.save_every)
            self.updates += 1
        for role in own:
            self.machine.device.drop(*self._names(role, "resident"))
            if self.roles[role].host:
                self.machine.host.drop(role)
        for learner in learners:
            self._forget(learner)

    def _load(self, learner: str) -> None:
        """A model is whole on each device until it is sharded, the reference beside it."""
        role, shape = self.roles[learner], self.study.placement.learner
        shards = len(shape.devices) if shape.zero == 3 else 1
        whole = role.resident["weights"] * shards * (2 if "reference" in role.resident else 1)
        if shards > 1:
            with self.machine.device.holding(f"whole {learner}", whole):
                self._put(learner, "resident")
        else:
            self._put(learner, "resident")
        if role.host:
            self.machine.host.put(learner, role.host * self.count)

    def _forget(self, learner: str) -> None:
        self.machine.device.drop(*self._names(learner, "resident"))
        if self.roles[learner].host:
            self.machine.host.drop(learner)

    def _start_engine(self, role: RoleMemory) -> None:
        """An engine starts awake, and allocates all that it may use."""
        self._put(role.role, "resident")
        self._put(role.role, "rollout")
        if role.host:
            self.machine.host.put(role.role, role.host * self.count)

    def _sleep(self, role: str) -> None:
        self.machine.device.drop(*self._names(role, "rollout"))

    def _roll_out(self, own: list[str]) -> None:
        """Engines wake beside what the learner keeps; the actor takes new weights."""
        self._put("learner", "rollout")
        for role in own:
            self._put(role, "rollout")
        with self.machine.shm.holding("new weights", sync_gib(self.study)):
            pass
        for role in (*own, "learner"):
            self.machine.device.drop(*self._names(role, "rollout"))

    def _update(self, learner: str) -> None:
        """A micro-batch of the longest sequences; the critic's needs no more."""
        device, parts = self.machine.device, {**self.roles[learner].update}
        parts["activations"] = self.activations
        for what, gib in parts.items():
            device.put(f"{learner} {what} (update)", gib)
        device.drop(*(f"{learner} {what} (update)" for what in parts))

    def _save(self, what: str, gib: float, replaces: bool) -> None:
        """A new state lies beside the old one until it is whole."""
        if replaces:
            with self.machine.disk.holding(f"new {what}", gib):
                pass
        else:
            self.machine.disk.put(what, gib)

    def _put(self, role: str, phase: str) -> None:
        sizes = getattr(self.roles[role], phase).values()
        for name, gib in zip(self._names(role, phase), sizes, strict=True):
            self.machine.device.put(name, gib)

    def _names(self, role: str, phase: str) -> list[str]:
        return [f"{role} {what} ({phase})" for what in getattr(self.roles[role], phase)]


def machine(study: Study, device_gib: float, **gib: float) -> Machine:
    """A node with all that the plan asks for, but for what is named.

    Args:
        study: with its reserve of a device.
        device_gib: of each device.
        gib: of `host`, `shm` or `disk`, in place of plenty, what new weights take, and the plan's
            disk.
    """
    sizes = {
        "host": study.placement.host_memory_gib or 256.0,
        "shm": sync_gib(study),
        "disk": storage(study)["total_gib"],
        **gib,
    }
    names = {"host": "the host", "shm": "/dev/shm", "disk": "the disk"}
    rooms = {place: Room(names[place], size) for place, size in sizes.items()}
    return Machine(Room("a device", device_gib - study.assumptions.reserve_gib), **rooms)
