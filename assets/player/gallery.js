/* The static gallery: cards of recorded runs, and the player of the one that is open. Which one that is stands in the
   address, so that links, reload, back and forward work. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h, say, splitFile, readPlace, TraceError } = FOVEA;
  const ABOUT = "A small drafter guesses several tokens ahead, looks at the picture for each guess, and the big model checks them all at once. These runs were recorded; open one and watch it.";
  const NOTHING = "This link names a run that is not in this gallery.";

  class Gallery {
    constructor(root, { title, cards }, unpack) {
      this.title = title;
      this.cards = new Map(cards.map((card) => [card.name, card]));
      this.unpack = unpack;
      this.open = null;
      this.note = h("p", { class: "fg-note", role: "alert", hidden: true });
      this.shelf = h("div", { class: "fg-shelf" }, h("p", { class: "fg-about" }, ABOUT), this.note, ...groups(cards));
      const names = cards.map((card) => card.name), beside = (by) => names[(names.indexOf(this.open) + by + names.length) % names.length];
      this.run = h("div", { class: "fg-run", hidden: true });
      this.bar = h("nav", { class: "fg-bar", "aria-label": "Runs", hidden: true }, h("a", { class: "fg-link", href: "#" }, "← All runs"));
      this.name = h("span", { class: "fg-name" });
      this.before = h("a", { class: "fg-link", "aria-label": "Run before" }, "‹ before");
      this.after = h("a", { class: "fg-link", "aria-label": "Run after" }, "next ›");
      this.beside = beside;
      this.bar.append(this.name, this.before, this.after);
      this.head = h("header", { class: "fg-head" }, h("h1", null, title), this.bar);
      root.classList.add("fg");
      root.append(this.head, this.shelf, this.run);
      const box = h("div");
      this.run.append(box);
      this.player = FOVEA.createPlayer(box, { mode: "page", autoplay: true, links: { open: (name) => this.show(name) } });
      FOVEA.page = this.player;
      window.addEventListener("hashchange", () => this.follow());
      this.follow();
    }

    /** Back to the cards where the address names no run; the player's links call show where it does. */
    follow() {
      const place = readPlace(location.hash);
      if (place?.run) return;
      this.leave(place ? NOTHING : "");
    }

    /** Opens a run by its name: unpacks it, checks it as a stranger's file, and goes where the link points. */
    async show(name) {
      if (!this.cards.has(name)) return this.leave(NOTHING);
      this.open = name; // the last one asked for wins
      const text = await this.unpack(`run-${name}`);
      if (this.open !== name) return;
      try {
        this.player.load(splitFile(text));
      } catch (error) {
        if (!(error instanceof TraceError)) throw error;
        return this.leave(error.message);
      }
      const { title } = this.cards.get(name);
      say(this.name, title);
      document.title = `${title} · ${this.title}`;
      this.before.href = `#run=${this.beside(-1)}`;
      this.after.href = `#run=${this.beside(1)}`;
      this.turn(false);
      this.player.links.arrived(name);
      this.player.root.focus({ preventScroll: true });
      window.scrollTo(0, 0);
    }

    /** Shows the cards again, with one sentence where something went wrong. */
    leave(sentence) {
      this.open = null;
      this.player.reset();
      this.player.links.missing();
      this.player.name = null;
      document.title = this.title;
      say(this.note, sentence);
      this.note.hidden = !sentence;
      this.turn(true);
    }

    turn(cards) {
      this.shelf.hidden = !cards;
      this.run.hidden = this.bar.hidden = cards;
    }
  }

  /** A section per kind, in the order in which kinds come. */
  function groups(cards) {
    const kinds = new Map();
    for (const card of cards) {
      if (!kinds.has(card.kind)) kinds.set(card.kind, []);
      kinds.get(card.kind).push(cardOf(card));
    }
    return [...kinds].map(([kind, found]) => h("section", { class: "fg-kind" }, h("h2", null, kind), h("ul", { class: "fg-cards" }, ...found)));
  }

  function cardOf(card) {
    const figures = [`${card.tokens} tokens in ${card.rounds} ${card.rounds === 1 ? "round" : "rounds"}`];
    if (card.tau !== null) figures.push(`tau ${card.tau.toFixed(2)}`);
    if (card.speedup !== null) figures.push(`${card.speedup.toFixed(2)} × plain decoding`);
    return h("li", null, h("a", { class: "fg-card", href: `#run=${card.name}` },
      h("img", { src: card.thumbnail, alt: "", loading: "lazy" }), h("strong", null, card.title), h("q", null, card.question),
      card.look ? h("span", null, card.look) : null, h("span", { class: "fg-figures" }, figures.join(" · "))));
  }

  FOVEA.openPage = (root, content, unpack) => new Gallery(root, content, unpack);
})();
