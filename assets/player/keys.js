/* Keys and dropped files of a player; keys count only while it has the focus. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { PALETTES, projector, walkPatches } = FOVEA;

  /** Listens at the player's root: keys, clicks beside everything, dropped files. */
  function listenTo(player) {
    const { root } = player;
    walkPatches(player);
    root.addEventListener("keydown", (event) => onKey(player, event));
    root.addEventListener("focusin", (event) => (player.held = event.target));
    root.addEventListener("pointerdown", (event) => {
      if (!event.target.closest("button, input, summary, [tabindex='0'], [data-key], a")) root.focus({ preventScroll: true });
    });
    const carries = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
    root.addEventListener("dragover", (event) => {
      if (!carries(event)) return;
      event.preventDefault();
      root.classList.add("fv-over");
    });
    root.addEventListener("dragleave", (event) => root.contains(event.relatedTarget) || root.classList.remove("fv-over"));
    root.addEventListener("drop", (event) => {
      if (!carries(event)) return;
      event.preventDefault();
      event.stopPropagation();
      root.classList.remove("fv-over");
      const [file] = event.dataTransfer.files;
      if (file) player.open(file);
    });
  }

  function onKey(player, event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { target, key } = event, onButton = target.closest("button, summary, a"), typing = target.matches("input:not(.fv-scrub), textarea, select");
    const walker = [player.answer, player.tree, ...(player.erase?.trees || [])].find(({ host }) => host.contains(target));
    const acts = {
      ArrowLeft: () => player.goto(player.at - (event.shiftKey ? 5 : 1)), ArrowRight: () => player.goto(player.at + (event.shiftKey ? 5 : 1)),
      Home: () => player.goto(0), End: () => player.skipToEnd(), Escape: () => (projector.on && !player.selected ? projector.set(false) : player._release()), "?": () => player._toggleHelp(),
      p: () => projector.set(!projector.on), x: () => player.stage.setExact(!player.stage.exact),
    };
    if (player.erase) acts.e = () => player.erase.toggle();
    if (!onButton) acts[" "] = () => player.toggle();
    if (walker) Object.assign(acts, { ArrowDown: () => walker.move(1), ArrowUp: () => walker.move(-1), Enter: () => target.dispatchEvent(new Event("click", { bubbles: true })) });
    PALETTES.forEach((name, i) => (acts[String(i + 1)] = () => player.stage.setPalette(name)));
    const act = Object.hasOwn(acts, key) ? acts[key] : null;
    if (!act || typing) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  Object.assign(FOVEA, { listenTo });
})();
