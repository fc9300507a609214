/* What a word or node is, in sentences: how it was drafted, how it was judged, what its state retrieved. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h, label, percent, chance, closeness, keyOf, kindOf } = FOVEA;

  /** What a person calls a word or node: its text; the sign that ends the answer has none, nor have some control tokens. */
  FOVEA.calledOf = function (run, item) {
    const text = label(item.text);
    if (text) return text;
    const ids = run.finished?.reason === "eos" ? run.finished.ids : [];
    return ids.length && item.token === ids[ids.length - 1] ? "∎ the end of the answer" : `a token without text (number ${item.token})`;
  };

  /** Rejected nodes that were tried where ``word`` stands, the drafter's favourite first. */
  function triedAt(run, word) {
    const round = word.round;
    if (!round) return [];
    const depth = word.index - round.firstWord + 1;
    return [...round.nodes.values()].filter((node) => node.status === "rejected" && node.depth === depth).sort((a, b) => (b.logp ?? -99) - (a.logp ?? -99));
  }

  /** Parts of a sentence about ``item``: strings, and buttons that lead to another node. */
  function story(run, item, read, lead) {
    const node = item.judged === undefined ? item.node : item;
    if (!node && item.status === "first") return ["is the target's own first word, not drafted."];
    if (!node && item.status === "bonus") {
      const [favourite] = triedAt(run, item);
      if (!favourite) return ["is the target's own word, not drafted."];
      return ["is the target's own word, not drafted; the drafter tried “", lead.link(FOVEA.calledOf(run, favourite), () => lead.item(keyOf(favourite))), "”."];
    }
    if (!node) return ["was accepted; this trace recorded rounds only."];
    const step = node.round.step, chanceOf = node.logp === null || node.logp === undefined ? "" : ` with p ${chance(node.logp)}`;
    const drafted = `was drafted${read ? "" : " without a look"}${chanceOf}`;
    if (node.status === "rejected") {
      const judged = node.judged, miss = { near: "A near miss", wild: "A wild guess", plain: "A miss" }[closeness(judged)];
      return [`${drafted} and rejected in step ${step}. ${miss}: drafted ${FOVEA.calledOf(run, node)} (target p ${chance(judged.logp)}, rank ${judged.rank + 1}); target ${FOVEA.calledOf(run, { text: judged.target_text, token: judged.target_token })} (p ${chance(judged.target_logp)}).`];
    }
    if (node.status === "unverified") return [`${drafted} in step ${step} and never checked: it hangs below a rejected node, or past the end.`];
    return [`${drafted} and ${node.status === "pending" ? "not judged yet" : `accepted in step ${step}`}.`];
  }

  /** How many entries of the target's ``look`` the drafter retrieved, too; nothing where it retrieved none. */
  function shared(look, fetched) {
    if (!fetched) return "";
    const mine = new Set(fetched.entries), both = look.entries.filter((entry) => mine.has(entry)).length;
    return `, ${both} of them among the ${fetched.size} that the drafter retrieved`;
  }

  /** Paragraphs about ``item`` (a word or node) and ``read`` (null: none). on = {item(key), patch(entries)}, called by the
      buttons in them. */
  FOVEA.captionOf = function (run, item, read, on) {
    const link = (text, act, title) => h("button", { type: "button", class: "fv-link", title, onclick: act }, text);
    const said = h("strong", { class: "fv-said" }, FOVEA.calledOf(run, item));
    const fetched = run.readOf(item), looked = read?.event.source === "target";
    const paragraphs = [h("p", null, said, " ", ...story(run, item, fetched, { link, item: on.item }))];
    if (!read) return paragraphs;
    const kind = kindOf(run.started);
    const told = looked ? `The target looked here as it said this: ${read.size} entries of ${run.validCount} hold ${percent(read.event.captured)} of its look${shared(read, fetched)}; most in `
      : kind ? kind.told(read.size, run.validCount, percent(read.event.captured))
      : `${read.size} retrieved entries of ${run.validCount} hold ${percent(read.event.captured)} of the mass; most in `;
    const most = h("p", { class: "fv-hint" }, told);
    read.entries.slice(0, 3).forEach((entry, i, named) => {
      const place = link(`${run.nameOf(entry)} (${percent(read.masses[i])})`, () => on.patch([entry]), "words that used this entry");
      most.append(...(i < named.length - 1 ? [h("span", { class: "fv-listed" }, place, ","), " "] : [place])); // a line begins with no comma
    });
    return [...paragraphs, most];
  };
})();
