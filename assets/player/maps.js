/* What the maps of a run are maps of, in words, and why a run has none (fovea_core/trace/reads.py has the kinds). */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});

  /* A drafter without a visual memory may read the picture by a reader of its own; the policy of its run says how. Per kind:
     note, of the run; told, of one map in front of the places with most of it; entries, captured: of two figures. */
  const OWN = "The maps of this run are of its drafter's own reader, not of FOVEA's memory: ";
  const KINDS = {
    routed: {
      note: (most) => `${OWN}its router chooses ${most} entries once a step, and a map shows how one state shares its reading out over them, all 100 %.`,
      told: (size, all) => `Its router chose ${size} entries of ${all} for this step; of what was read here most came from `,
      entries: () => "chosen by its router for the whole step, of all that the picture has",
      captured: "of its reading: it reads these entries alone",
    },
    watched: {
      note: (most) => `${OWN}it reads the ${most} entries on which the target looked most as it said the word before a step, and a map shows how one place of the draft shares its reading out over them, all 100 %.`,
      told: (size, all) => `The target looked most at ${size} entries of ${all} before this step, and the drafter reads these; of what was read here most came from `,
      entries: () => "those on which the target looked most before the step, of all that the picture has",
      captured: "of its reading: it reads these entries alone",
    },
    cells: {
      note: () => `${OWN}it reads the target's states at the whole picture, pooled into cells of 2 × 2 entries, and a map shows the cells with most of a reading: whole ones, until they hold 80 % of it, and at most 80 entries.`,
      told: (size, all, held) => `It read the whole picture in cells; those shown have ${size} entries of ${all} and ${held} of the reading, spread evenly inside each; most in `,
      entries: ({ size, event }) => `in the cells shown; all of the picture is read${event.k_raw > size ? `, and ${event.k_raw} entries would hold 80 % of it` : ""}`,
      captured: "what the cells shown hold of its reading",
    },
  };

  /** How the drafter of a run read the picture, where that was by a reader of its own: {name, most (entries), and what KINDS
      has}; null where it was FOVEA's memory or nothing. */
  function kindOf(started) {
    const [, name, most, cells] = /^(?:(routed|watched)-([1-9]\d{0,3})|(cells))$/.exec(started ? started.policy : "") || [];
    return name || cells ? { name: name || cells, most: Number(most), ...KINDS[name || cells] } : null;
  }

  /** What a share of a map is a share of. */
  const massName = (run) => (kindOf(run.started) ? "its reading" : "mass");

  /* Why words of a run of the Lab's drafters have no maps: what these have of the picture instead. Nothing of that is in a trace. */
  const WHY = {
    blind: "its drafter was trained without a visual memory, and knows of the picture what the target's states at the text tell",
    eagle3: "its drafter is given the target's states at the text, in three layers, and nothing of the picture itself",
    prefix: "its drafter has image tokens in its context like words, attends to them as to words, and has no reader of the picture whose choice could be shown",
    compressed: "its drafter has the picture as three vectors made of all image tokens, two in its context and one added to every word, and none of them lies anywhere in the picture",
    dream: "its drafter reads the target's states at the text, which lie nowhere in the picture; of the picture it has image tokens in its context, like words",
  };
  // Of runs that were recorded before such reads were.
  const UNRECORDED = {
    hawk: "it reads all of the target's states at the picture, pooled into cells",
    tiger: "it reads a few image tokens that it chooses once a step, which are not recorded",
    unilaspec: "it reads the few image tokens on which the target looked most, which are not recorded",
  };

  /** What a table of the Lab's drafters, by name, has of the drafter ``id``; null for others. */
  const ofLab = (table, id) => (id.startsWith("lab-") && Object.hasOwn(table, id.slice(4)) ? table[id.slice(4)] : null);
  const looksOf = (run) => (!run.hasLooks ? "" : run.hasReads ? " 'target looked' shows the target's own look." : " Shown instead: where the target looked.");

  /** Why no word of a run has a map of what its drafter retrieved, in a sentence; empty where its drafter reads the picture,
      where nothing is drafted, and before either is known. */
  function maplessOf(run) {
    const started = run.started, drafter = started?.drafter;
    if (!drafter || started.policy !== "none") return "";
    const why = ofLab(WHY, drafter.id), unrecorded = ofLab(UNRECORDED, drafter.id);
    if (why) return `The words of this run have no maps: ${why}.${looksOf(run)}`;
    return `The drafter of this run reads no visual memory, so its words have no maps${unrecorded ? `; ${unrecorded}` : ""}.${looksOf(run)}`;
  }

  /** What has to be said of a run's maps: what kind they are where they are not of FOVEA's memory, why there are none, or nothing. */
  function mapNoteOf(run) {
    const kind = run.hasReads ? kindOf(run.started) : null;
    return kind ? `${kind.note(kind.most)}${looksOf(run)}` : maplessOf(run);
  }

  Object.assign(FOVEA, { kindOf, massName, maplessOf, mapNoteOf, ofLab });
})();
