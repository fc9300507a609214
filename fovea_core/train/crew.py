"""Several processes that train one drafter, as ``accelerate launch`` starts them: who does what, and what they exchange.

A process alone is a crew of one and needs no accelerate. All others meet through it, over gloo on CPUs and NCCL on GPUs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import Tensor, nn

from fovea_core.settings import SettingsError

#: Where launchers say how many processes there are: torch's, and those of MPI that accelerate knows.
COUNTS = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
#: How long one waits for the others: answers and evaluation take hours in which nothing is exchanged. Whoever fails does not
#: keep them waiting, since the launcher then ends all.
PATIENCE = timedelta(days=30)


@dataclass(frozen=True)
class Crew:
    """number: of this process, from 0, which is the one that logs, evaluates and writes; count: of all; device: this one's."""

    number: int = 0
    count: int = 1
    device: str = "cpu"

    @property
    def main(self) -> bool:
        """Whether this is the process that logs, evaluates and writes."""
        return self.number == 0

    def does(self, piece: int) -> bool:
        """Whether piece ``piece`` of the work, from 0 on, is this process's."""
        return piece % self.count == self.number

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes, on the device and in the shape of ``values``."""
        if self.count == 1:
            return values
        from accelerate.utils import reduce

        return reduce(values.to(self.device), "sum").to(values.device)

    def add_gradients(self, module: nn.Module) -> None:
        """Every gradient of ``module`` becomes its sum over all processes; what has none in any of them keeps none."""
        if self.count == 1:
            return
        learnt = [parameter for parameter in module.parameters() if parameter.requires_grad]
        found = self.sum(torch.tensor([float(parameter.grad is not None) for parameter in learnt]))
        for parameter, somewhere in zip(learnt, found.tolist()):
            if somewhere:
                parameter.grad = self.sum(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)

    @torch.no_grad()
    def align(self, module: nn.Module) -> None:
        """All begin with the main process's numbers."""
        if self.count == 1:
            return
        from accelerate.utils import broadcast

        for values in module.state_dict().values():
            values.copy_(broadcast(values.clone()))

    def share(self, found: object) -> object:
        """What the main process found, for all; of the others ``found`` is not looked at."""
        if self.count == 1:
            return found
        from accelerate.utils import broadcast_object_list

        return broadcast_object_list([found])[0]

    def gather(self, found: list) -> list:
        """The lists of all processes as one, on each of them."""
        if self.count == 1:
            return found
        from accelerate.utils import gather_object

        return gather_object(found)

    def wait(self) -> None:
        """Until all are here."""
        if self.count > 1:
            from accelerate import PartialState

            PartialState().wait_for_everyone()

    def leave(self) -> None:
        """Let go of the others once all are here; nothing is exchanged afterwards."""
        if self.count > 1:
            from accelerate import PartialState

            self.wait()
            PartialState().destroy_process_group()


ALONE = Crew()


def started() -> int:
    """How many processes the launcher of this one has started, itself included."""
    said = (os.environ.get(name, "") for name in COUNTS)
    return max([1, *(int(count) for count in said if count.isdigit())])


def form_crew(device: str) -> Crew:
    """The crew of this process, all of it on CPUs or with a GPU each; device: cpu, cuda or cuda:1, see registry.pick_device.

    Raises SettingsError where several were started and cannot work together.
    """
    count = started()
    if count == 1:
        return Crew(device=device)
    if ":" in device:
        raise SettingsError(f"{count} processes cannot share {device}: use --device cuda, which gives each a GPU of its own.")
    here = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if device == "cuda" and here > torch.cuda.device_count():
        raise SettingsError(f"{here} processes here need a GPU each, and torch finds {torch.cuda.device_count()}.")
    try:
        from accelerate import PartialState
    except ImportError:
        raise SettingsError(
            f"Training in {count} processes needs the package accelerate, which is not here: "
            "`.venv/bin/pip install accelerate -c constraints.txt`, then start with `accelerate launch`."
        ) from None
    state = PartialState(cpu=device == "cpu", timeout=PATIENCE)
    return Crew(state.process_index, state.num_processes, str(state.device))


def refuse_crew(command: str) -> None:
    """Raise SettingsError where several processes were started for a command that one does."""
    if started() > 1:
        raise SettingsError(f"{command} runs in one process, and {started()} were started: only train-drafter --data shares.")
