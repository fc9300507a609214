/* What a person calls the makers of a run; their ids, which are for machines, stand in the numbers panel. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { label, LIMITS } = FOVEA;

  const WAYS = new Map(Object.entries({ "builtin fovea": "FOVEA", "builtin dense": "FOVEA, all entries", "builtin none": "FOVEA, memory switched off", blind: "blind twin, no memory", lookup: "prompt lookup", trie: "trie of what was said", "": "plain decoding" }));
  const NUMBERED = { topk: (n) => `FOVEA, always ${n} entries`, random: (n) => `FOVEA, ${n} random entries` };

  // The Lab's trained drafters, as fovea_core/targets/shelf.py calls them; and what those without a visual memory have of the
  // picture instead. Nothing of that is in a trace.
  const LAB = { fovea: "FOVEA", blind: "drafter without memory", eagle3: "EAGLE-3-style", prefix: "fixed prefix (MSD-style)", compressed: "compressed prefix (ViSpec-style)", dream: "DREAM-style", hawk: "HAWK-style, built from the abstract", tiger: "TIGER-style, built from the abstract", unilaspec: "Uni-LaSpec-style, built from the abstract" };
  const INSTEAD = {
    prefix: "image tokens stand in its context",
    compressed: "vectors made of the image tokens stand in its context",
    dream: "image tokens stand in its context, and it reads the target's states at the text",
    hawk: "it reads all of the target's states at the picture, pooled into cells",
    tiger: "it reads a few image tokens that it chooses once a step, which are not recorded",
    unilaspec: "it reads the few image tokens on which the target looked most, which are not recorded",
  };
  const own = (table, id) => (id.startsWith("lab-") && Object.hasOwn(table, id.slice(4)) ? table[id.slice(4)] : null);

  /** Why no word of a run has a map of what its drafter retrieved, in a sentence; empty where its drafter reads a memory, where
      nothing is drafted, and before either is known. */
  function maplessOf(run) {
    const started = run.started, drafter = started?.drafter;
    if (!drafter || started.policy !== "none") return "";
    const instead = own(INSTEAD, drafter.id);
    const looks = run.hasLooks ? " 'target looked' shows the target's own look." : "";
    return `The drafter of this run reads no visual memory, so its words have no maps${instead ? `; ${instead}` : ""}.${looks}`;
  }

  /** The way ``started`` drafts: a name of WAYS, else the drafter's own with its policy. */
  function wayOf({ drafter, policy }) {
    const id = drafter ? drafter.id : "", known = WAYS.get(`${id} ${policy}`) || WAYS.get(id);
    if (known) return known;
    const lab = own(LAB, id);
    if (lab) return `${lab} (Lab's budget)${policy === "none" || policy === "fovea" ? "" : `, policy ${label(policy, 40)}`}`;
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

  Object.assign(FOVEA, { wayOf, makersOf, idsOf, maplessOf });
})();
