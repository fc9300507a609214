"""The model card of a trained drafter, from what its training and its evaluation measured and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fovea_core.drafter.checkpoint import read_config
from fovea_core.drafter.model import DrafterConfig

CARD_NAME = "README.md"


def write_card(folder: Path, twins: Sequence[Path] = ()) -> Path:
    """Write README.md into a drafter folder; ``twins``: the others of the same training, told beside it."""
    config, others = read_config(folder), [(twin.name, read_config(twin)) for twin in twins]
    path = folder / CARD_NAME
    path.write_text(card(folder.name, config, others), encoding="utf-8")
    return path


def card(name: str, config: DrafterConfig, others: Sequence[tuple[str, DrafterConfig]] = ()) -> str:
    """The card's text in markdown."""
    facts = config.provenance
    kind = "A FOVEA drafter" if config.sighted else "The blind twin of a FOVEA drafter (same body, no visual memory)"
    parts = [
        "---\nlibrary_name: fovea-explorer\ntags: [speculative-decoding, vision-language, fovea]\n---",
        f"# {name}",
        f"{kind} for the target `{config.target_id}` with the fingerprint `{config.target_fingerprint}`. It is refused for any "
        "other. With greedy decoding the text is the target's own, whatever this drafter proposes.",
        "## Measured",
        _table(name, config, others),
        _judged(facts),
        "## Made",
        _made(config),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(name: str, config: DrafterConfig, others: Sequence[tuple[str, DrafterConfig]]) -> str:
    rows = [(name, config), *others]
    figures = (
        ("tau", "tau, bonus counted"),
        ("tau_without_memory", "the same without its memory"),
        ("held_chain", "chain length, teacher-forced"),
        ("held_loss", "loss"),
    )
    figures += (("held_accuracy", "accuracy by depth"), ("same_ids", "answers with the ids of plain decoding"))
    lines = [f"| | {' | '.join(title for title, _ in rows)} |", f"|---|{'---:|' * len(rows)}"]
    for key, label in figures:
        values = [one.provenance.get(key) for _, one in rows]
        if any(value is not None for value in values):
            lines.append(f"| {label} | {' | '.join('-' if value is None else str(value) for value in values)} |")
    return "\n".join(lines) if len(lines) > 2 else ""


def _judged(facts: dict) -> str:
    if not facts.get("tau_requests"):
        if facts.get("memory"):
            return "Nothing: the body was imported as it is, and the memory is not trained, so it corrects nothing yet."
        return "No request was kept from training, so nothing was measured on one."
    return (
        f"On {facts['tau_requests']} requests kept from training, {facts['tau_rounds']} rounds of the draft tree "
        f"{facts['tau_tree']}, on {facts['device']} in {facts['dtype']}."
    )


def _made(config: DrafterConfig) -> str:
    facts = config.provenance
    named = {
        "pairs": "picture-question pairs",
        "skipped": "entries skipped",
        "data_digest": "digest of the pairs",
        "samples": "answers learnt from",
        "held_samples": "answers kept from training",
        "trained_steps": "optimizer steps",
        "seconds": "seconds of training",
        "source": "imported from",
        "licence": "licence of the source",
    }
    lines = [f"- {label}: {facts[key]}" for key, label in named.items() if facts.get(key) not in (None, "")]
    recipe = ("batch", "accumulate", "unroll", "optimizer", "lr", "muon_lr", "warmup", "schedule", "clip", "autocast", "seed")
    settings = [f"{key} {facts[key]}" for key in (*recipe, "dense_share", "single_share") if key in facts]
    settings += [f"{key.removeprefix('loss_')} {value}" for key, value in facts.items() if key.startswith("loss_")]
    lines.append(
        f"- body: {config.blocks} blocks, hidden size {config.hidden_size}; reads of {config.k_min} to {config.k_max} entries"
    )
    lines += [f"- settings: {', '.join(settings)}"] * bool(settings)
    if "samples" in facts:
        lines.append("- the answers are the target's own: its licence and that of the pictures may bind this drafter too")
    return "\n".join(lines)
