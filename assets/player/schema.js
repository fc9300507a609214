/* What a lawful line of a trace is (fovea_core/trace/events.py is the schema). A line may come from a stranger's file, so
   nothing is kept before it passed. No DOM in this file. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});

  const LIMITS = {
    fileBytes: 48 * 1024 * 1024, headerChars: 12e6, events: 400000, lineChars: 400000, tokens: 8192, entries: 65535, longSidePx: 1280,
  };
  const VERSION = 1; // of the traces that this page reads
  const PICTURE = /^data:image\/(png|jpeg|webp);base64,[A-Za-z0-9+/]+={0,2}$/;

  /** Of a run whose picture lies outside its target's world: two halves of one sentence. */
  const OUTSIDE = ["This model only knows drawn Worksite pictures;", "what it says about this one means nothing."];

  /** An error whose message is one sentence for a person. */
  class TraceError extends Error {}

  /* ---- checks: each takes a value and says whether it is lawful ---- */
  const int = (low, high) => (v) => Number.isInteger(v) && v >= low && v <= high;
  const real = (low, high) => (v) => typeof v === "number" && Number.isFinite(v) && v >= low && v <= high;
  const text = (most) => (v) => typeof v === "string" && (v.length <= most || (v.length <= 2 * most && [...v].length <= most));
  const oneOf = (...all) => (v) => all.includes(v);
  const list = (check, most) => (v) => Array.isArray(v) && v.length <= most && v.every(check);
  const may = (check) => Object.assign((v) => v === null || v === undefined || check(v), { optional: true });
  const bool = (v) => typeof v === "boolean";
  const plain = (v) => v !== null && typeof v === "object" && !Array.isArray(v);
  const packed = (v) => typeof v === "string" && v.length <= LIMITS.entries * 4 && /^[A-Za-z0-9+/]*={0,2}$/.test(v);

  /** First field of ``value`` that breaks ``fields``, or "" when all hold; unknown fields break it too. */
  function broken(fields, value) {
    if (!plain(value)) return "shape";
    for (const name of Object.keys(value)) if (!Object.hasOwn(fields, name)) return "unknown field";
    for (const [name, check] of Object.entries(fields)) if (!check(Object.hasOwn(value, name) ? value[name] : undefined)) return name;
    return "";
  }
  const record = (fields) => (v) => broken(fields, v) === "";

  const count = int(0, 1e8), node = int(0, 4096), drafted = int(1, 4096), token = int(0, 4e6);
  const ms = real(0, Infinity), mass = real(0, 1.000001), logp = real(-1e30, 1e-6), bytes = may(text(4000)), piece = text(2000);
  const model = record({ id: text(500), fingerprint: may(text(100)) });
  const shape = record({ depth: int(1, 64), width: int(1, 64), nodes: int(2, 512) });
  const cost = record({ tokens: list(count, 64), verify_ms: list(ms, 64), level_ms: ms, chain_level_ms: may(ms), round_ms: may(ms) });
  const scalar = (v) => v === null || ["string", "number", "boolean"].includes(typeof v);
  const dictOf = (check) => (v) => plain(v) && Object.keys(v).length <= 200 && Object.values(v).every(check);
  const finite = real(-Infinity, Infinity);
  const tile = record({
    rows: int(1, 4096), columns: int(1, 4096), view: oneOf("tile", "global"), first: count,
    box: (v) => list(finite, 4)(v) && v.length === 4 && v[0] < v[2] && v[1] < v[3], valid: list(count, LIMITS.entries),
  });
  const rejected = record({
    node: drafted, target_token: token, target_text: piece, target_logp: logp, logp, rank: count,
  });
  const base = (kind, fields) => ({ kind: oneOf(kind), n: count, ...fields });
  const SCHEMA = {
    run_started: base("run_started", {
      schema_version: oneOf(VERSION), question: text(20000), target: model, drafter: may(model), policy: text(100),
      settings: dictOf(scalar), seed: count, shape: may(shape), max_shape: may(shape), depth_limit: int(-1, 64), cost: may(cost),
      device: text(200), versions: dictOf(text(100)), picture_width_px: int(1, 1e6), picture_height_px: int(1, 1e6),
      picture_sha256: text(64), notes: may(list(text(500), 1000)),
    }),
    prefill_done: base("prefill_done", {
      prompt_tokens: count, image_spans: list((v) => list(count, 2)(v) && v.length === 2, 1000), tiles: list(tile, 1000),
      token, text: piece, bytes, prefill_ms: ms, remember_ms: ms, outside: may(bool),
    }),
    memory_read: base("memory_read", {
      round: count, node, depth: int(0, 64), source: may(oneOf("drafter", "target")), serves: may(oneOf("node", "round", "run")),
      entries: packed, masses: packed, top_mass: mass, captured: mass, k_raw: count, gate: may(mass),
      correction_norm: may(real(0, Infinity)), peak: real(-1e-6, 1.000001), ms,
    }),
    node_drafted: base("node_drafted", {
      round: count, node: drafted, parent: node, depth: int(1, 64), token, text: piece, bytes, logp: may(logp),
    }),
    round_verified: base("round_verified", {
      round: count, accepted: list(node, 4096), rejected: list(rejected, 4096), unverified: list(node, 4096),
      bonus: may(token), bonus_text: may(piece), bonus_bytes: bytes, emitted: list(token, 4096), pruned: count,
      draft_ms: ms, select_ms: ms, verify_ms: ms,
    }),
    finished: base("finished", {
      reason: oneOf("eos", "length", "stopped"), ids: list(token, LIMITS.tokens), text: text(200000), rounds: count,
      drafted: count, accepted: count, tau: may(real(0, Infinity)), total_ms: ms, prefill_ms: ms, draft_ms: ms, select_ms: ms,
      verify_ms: ms,
    }),
    compared: base("compared", {
      plain_ms: list(ms, 100), plain_median_ms: ms, speculative_ms: ms, speedup: real(0, Infinity), same_ids: bool,
      first_difference: may(count), gap: may(finite),
    }),
  };
  const HEADER = { format: oneOf("fovea-trace"), version: oneOf(1), picture: (v) => typeof v === "string" && PICTURE.test(v) };

  /** The checks of an event's fields by its kind; null for a kind that this page does not know. */
  const fieldsOf = (value) => (plain(value) && Object.hasOwn(SCHEMA, value.kind) ? SCHEMA[value.kind] : null);

  Object.assign(FOVEA, { LIMITS, VERSION, OUTSIDE, TraceError, HEADER, fieldsOf, broken });
})();
