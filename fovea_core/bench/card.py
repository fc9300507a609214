"""The figures in README and model card: written from the committed bench result, never by hand."""

from __future__ import annotations

import json
from pathlib import Path

from fovea_core.bench.report import FAITHFUL, INTERVAL, faithful_rows, figure_rows

ROOT = Path(__file__).resolve().parents[2]
RESULT, FAITHFUL_RESULT = (ROOT / "assets" / "bench" / f"{name}.json" for name in ("builtin", "faithful"))
#: Files with a block between START and END; README shows the short list, the model card everything.
README, CARD = ROOT / "README.md", ROOT / "assets" / "builtin" / "README.md"
START, END = "<!-- figures: python -m fovea_core bench card -->", "<!-- end of figures -->"
#: The model card's block about faithfulness.
FAITHFUL_START, FAITHFUL_END = "<!-- faithful: python -m fovea_core bench card -->", "<!-- end of faithful -->"
SHORT = (
    *("tau_chain", "tau_chain_blind", "tau_paper", "tau_paper_blind", "tau_fast", "tau_fast_blind"),
    *("speedup_plain", "plain_vs_generate", "same_ids_rate"),
    *("attribute_acc", "char_acc", "value_acc", "short_acc"),
    *("pointing", "pointing_coverage", "mass_ratio", "k_p50_fact", "strip_hits"),
)


def figures_block(result: dict, keys: tuple[str, ...] | None = None) -> str:
    """A markdown table of a bench result (all figures, or those named), with where and on what it was measured."""
    kinds, where = list(result["kinds"]), result["machine"]
    lines = [f"| figure | {' | '.join(kinds)} | overall |", f"|---|{'---:|' * (len(kinds) + 1)}"]
    for label, cells in figure_rows(result):
        if keys is None or label in keys:
            lines.append(f"| {'95 % interval' if label == INTERVAL else label} | {' | '.join(cells)} |")
    busy = ", machine busy" if result["machine_busy"] else ""
    lines.append("")
    lines.append(
        f"Seeds {result['workload']['seeds']}, {where['cores']} cores ({where['processor']}), {where['threads']} threads{busy}."
    )
    return "\n".join(lines)


def faithful_block(result: dict) -> str:
    """A markdown table of a result of ``bench faithful``."""
    lines = [f"| drops in nats | {' | '.join(name.strip() for name in FAITHFUL)} |", f"|---|{'---:|' * len(FAITHFUL)}"]
    lines += [f"| {label} | {' | '.join(cells)} |" for label, cells in faithful_rows(result)]
    return "\n".join([*lines, "", f"Seeds {result['workload']['seeds']}."])


def with_block(text: str, block: str, start: str = START, end: str = END) -> str:
    """``text`` with the part between the marks replaced. Raises ValueError where there is no such part."""
    before, opened, rest = text.partition(start)
    _, closed, after = rest.partition(end)
    if not (opened and closed):
        raise ValueError("the figures' place is not marked")
    return f"{before}{start}\n{block}\n{end}{after}"


def cards() -> dict[Path, str]:
    """README and model card as they should be, by path."""
    result, faithful = (json.loads(path.read_text()) for path in (RESULT, FAITHFUL_RESULT))
    card = with_block(CARD.read_text(), figures_block(result))
    return {
        README: with_block(README.read_text(), figures_block(result, SHORT)),
        CARD: with_block(card, faithful_block(faithful), FAITHFUL_START, FAITHFUL_END),
    }


def write_cards() -> list[Path]:
    """Write the committed results into README and model card."""
    written = cards()
    for path, text in written.items():
        path.write_text(text)
    return list(written)
