/* Patches by key: which one an arrow leads to, and the cursor over a map that asks which words used a patch. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { say } = FOVEA;
  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

  const centreOf = (run, entry) => {
    const { box } = run.place(entry);
    return [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2];
  };

  /** The valid entry nearest to the middle of the picture. */
  function middleOf(run) {
    let best = null, least = Infinity;
    for (let entry = 0; entry < run.entryCount; entry += 1) {
      if (!run.valid[entry]) continue;
      const [x, y] = centreOf(run, entry), far = Math.hypot(x - 0.5, y - 0.5);
      if (far < least) [best, least] = [entry, far];
    }
    return best;
  }

  /** The entry that a key leads to from ``entry`` (null: none yet); itself at an edge, undefined for a key that is no arrow. */
  function patchBeside(run, entry, key) {
    const move = Object.hasOwn(ARROWS, key) ? ARROWS[key] : null;
    if (!move) return undefined;
    if (entry === null) return middleOf(run);
    const { box } = run.place(entry), [x, y] = centreOf(run, entry);
    return run.entriesAt(x + move[0] * (box[2] - box[0]), y + move[1] * (box[3] - box[1]))[0] ?? entry;
  }

  /** Arrow keys on the player's map move a cursor, Enter or Space asks for the words that used the patch under it. */
  function walkPatches(player) {
    const { stage } = player, { canvas } = stage;
    canvas.tabIndex = 0;
    canvas.title = "click a patch for the words that used it; by key: arrows, Enter";
    canvas.addEventListener("mousedown", (event) => {
      event.preventDefault(); // who points needs no cursor: the arrow keys go on walking through the steps
      player.root.focus({ preventScroll: true });
    });
    canvas.addEventListener("blur", () => {
      stage.cursor = null;
      player._draw();
    });
    canvas.addEventListener("keydown", (event) => {
      const { run } = player, { key } = event;
      if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || !run.prefill) return;
      const asks = key === "Enter" || key === " ", there = asks ? stage.cursor ?? middleOf(run) : patchBeside(run, stage.cursor, key);
      if (there === undefined || there === null) return;
      event.preventDefault();
      event.stopPropagation();
      stage.cursor = there;
      if (asks) player._patch([there]);
      else say(player.live, run.nameOf(there));
      player._draw();
    });
  }

  Object.assign(FOVEA, { middleOf, patchBeside, walkPatches });
})();
