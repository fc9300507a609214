"""Scalars of a training for TensorBoard, where somebody has installed it; else nothing is written."""

from __future__ import annotations

from pathlib import Path


class Scalars:
    """Writes the figures of a log line into ``folder``/tensorboard: ``twin``/name, of a list ``twin``/name/number from 1."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            self._writer = None
        else:
            self._writer = SummaryWriter(str(folder / "tensorboard"))

    def add(self, line: dict) -> None:
        """One line of log.jsonl."""
        if self._writer is None:
            return
        twin, step = line["twin"], line["step"]
        for name, value in line.items():
            if isinstance(value, list):
                for number, part in enumerate(value, start=1):
                    self._writer.add_scalar(f"{twin}/{name}/{number}", part, step)
            elif isinstance(value, int | float) and name != "step":
                self._writer.add_scalar(f"{twin}/{name}", value, step)

    def close(self) -> None:
        """Write what is not written yet."""
        if self._writer is not None:
            self._writer.close()
