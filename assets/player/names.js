/* What a person calls the makers of a run; their ids, which are for machines, stand in the numbers panel. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { label, kindOf, ofLab, LIMITS } = FOVEA;

  const WAYS = new Map(Object.entries({ "builtin fovea": "FOVEA", "builtin dense": "FOVEA, all entries", "builtin none": "FOVEA, memory switched off", blind: "blind twin, no memory", lookup: "prompt lookup", trie: "trie of what was said", "": "plain decoding" }));
  const NUMBERED = { topk: (n) => `FOVEA, always ${n} entries`, random: (n) => `FOVEA, ${n} random entries` };

  // The Lab's trained drafters, as fovea_core/targets/shelf.py calls them.
  const LAB = { fovea: "FOVEA", blind: "drafter without memory", eagle3: "EAGLE-3-style", prefix: "fixed prefix (MSD-style)", compressed: "compressed prefix (ViSpec-style)", dream: "DREAM-style", hawk: "HAWK-style, built from the abstract", tiger: "TIGER-style, built from the abstract", unilaspec: "Uni-LaSpec-style, built from the abstract" };

  /** The way ``started`` drafts: a name of WAYS, else the drafter's own with its policy. */
  function wayOf(started) {
    const { drafter, policy } = started;
    const id = drafter ? drafter.id : "", known = WAYS.get(`${id} ${policy}`) || WAYS.get(id);
    if (known) return known;
    const lab = ofLab(LAB, id), itself = policy === "none" || policy === "fovea" || kindOf(started);
    if (lab) return `${lab} (Lab's budget)${itself ? "" : `, policy ${label(policy, 40)}`}`;
    const [, kind, number] = /^(topk|random)-(\d{1,4})$/.exec(policy) || [];
    return id === "builtin" && kind ? NUMBERED[kind](number) : label(`${id === "builtin" ? "FOVEA" : id}, policy ${policy}`, 60);
  }

  /** Target, way and machine in words. */
  function makersOf(started) {
    const target = started.target.id === "builtin" ? "Embedded model" : label(started.target.id, LIMITS.lineChars);
    return `${target} · ${started.drafter ? `drafts by ${wayOf(started)}` : wayOf(started)} · ${started.device.replace(/^cpu\b/, "CPU")}`;
  }

  /** The same as the trace has it. */
  function idsOf({ target, drafter, policy }) {
    const [made, by, how] = [target.id, drafter ? drafter.id : "none", policy].map((id) => label(id, LIMITS.lineChars));
    return `In the trace: target ${made} · drafter ${by} · policy ${how}`;
  }

  Object.assign(FOVEA, { wayOf, makersOf, idsOf });
})();
