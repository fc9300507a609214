/* Large type for a lecture hall, for every player and lesson of this page. Kept for this session of this tab only. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h } = FOVEA;
  const KEY = "fovea-projector";
  const buttons = new Set();

  function kept() {
    try {
      return sessionStorage.getItem(KEY) === "1";
    } catch {
      return false; // a sandboxed frame has no storage
    }
  }

  const projector = {
    on: false,
    /** Switches large type on or off everywhere on the page. */
    set(on) {
      projector.on = on;
      document.documentElement.classList.toggle("fv-projector", on);
      for (const button of buttons) button.setAttribute("aria-pressed", String(on));
      try {
        sessionStorage.setItem(KEY, on ? "1" : "0");
      } catch {
        // not kept, then
      }
    },
    /** A button that switches it. */
    button() {
      const made = h("button", { type: "button", class: "fv-button fv-projector-switch", title: "Large type for a projector (p); Esc or p leaves it", onclick: () => projector.set(!projector.on) }, "Projector");
      made.setAttribute("aria-pressed", String(projector.on));
      buttons.add(made);
      return made;
    },
  };
  projector.set(kept());

  Object.assign(FOVEA, { projector });
})();
