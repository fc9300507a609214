/* What can be taken along of a run: its trace, pictures, a page, a link. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h, say, label, download, OUTSIDE } = FOVEA;
  const SANS = "ui-sans-serif, system-ui, sans-serif";
  const INK = "#1c1b19", SOFT = "#6b6862", WASH = "#efedf7", WARNING = "#a33f00";
  const LINES = { accepted: ["#0072b2"], first: ["#009e73", "#009e73"], bonus: ["#009e73", "#009e73"] };
  const MOST_CHARS = 3e6; // that the app takes in one request
  const TOO_LONG = "This run is longer than the 3 MB that the page takes; save its trace and use the command line.";
  const FAILED = "This file could not be made: the app did not answer. Is it still running?";

  /** The buttons below the strip. With options.exporter, an async function from {kind, lines, words, step, palette} to {data
      (base64), type} or {trouble}, the app makes the files that a browser cannot: 300 dpi, GIF, page. */
  function buildSaves(player) {
    const { exporter } = player.options, fine = Boolean(exporter);
    const button = (text, title, act) => h("button", { type: "button", class: "fv-button", title, onclick: act }, text);
    const whole = () => new Blob([player.run.lines.join("\n") + "\n"], { type: "application/jsonl" });
    const made = (kind, name, what) => (event) => askFor(player, event.currentTarget, kind, name, what);
    const step = (event) => (fine && player.at > 0 ? made("png", "fovea-step.png", "picture")(event) : saveStep(player));
    const { strip } = player;
    strip.png.addEventListener("click", (event) => (fine ? made("strip", "fovea-strip.png", "strip")(event) : strip.save()));
    const told = h("p", { class: "fv-hint fv-told", role: "status", "aria-live": "polite" });
    player.said = (text, bad) => {
      say(told, text);
      told.classList.toggle("fv-failed", Boolean(bad));
    };
    return h("div", { class: "fv-row fv-saves", role: "group", "aria-label": "Save and share" },
      player.links ? player.links.button : null,
      button("Save trace (JSON)", "every event of this run; opens again in any explorer", () => download(whole(), "fovea-trace.jsonl")),
      fine ? button("Save page (HTML)", "this player with this run in one file, works offline", made("html", "fovea-run.html", "page")) : null,
      strip.png,
      fine ? button("Save GIF", "the answer word by word; the words of the strip where you have changed it", made("gif", "fovea-run.gif", "GIF")) : null,
      button("Save step (PNG)", fine ? "the step in view, 300 dpi" : "the map in view and the answer so far", step),
      told);
  }

  /** Lets the app make a file from the lines of the run, says how long that takes, and offers the result. */
  async function askFor(player, button, kind, name, what) {
    const { strip, run } = player, began = performance.now(), tell = () => {
      const seconds = Math.floor((performance.now() - began) / 1000);
      player.said(`Making the ${what} …${seconds ? ` ${seconds} s` : ""}`);
    };
    const ticking = setInterval(tell, 1000);
    tell();
    button.disabled = true;
    let answer;
    try {
      const words = kind === "strip" || strip.edited ? strip.words.map((word) => word.token.index) : null;
      const long = run.lines.reduce((sum, line) => sum + line.length, 0) > MOST_CHARS;
      answer = long ? { trouble: TOO_LONG } : await player.options.exporter({ kind, lines: [...run.lines], words, step: player.at, palette: player.stage.palette });
    } catch {
      answer = { trouble: FAILED };
    }
    clearInterval(ticking);
    button.disabled = false;
    if (!answer || answer.trouble) return player.said(answer?.trouble || FAILED, true);
    const bytes = Uint8Array.from(atob(answer.data), (sign) => sign.charCodeAt(0));
    download(new Blob([bytes], { type: answer.type }), name);
    player.said(`${name}, ${Math.max(1, Math.round(bytes.length / 1000)).toLocaleString("en")} kB. The app keeps no copy.`);
  }

  async function saveStep(player) {
    await player.stage.loaded;
    const sheet = drawStep(player);
    download(await new Promise((done) => sheet.toBlob(done, "image/png")), "fovea-step.png");
  }

  /** What is in view as a picture of its own: question, picture with map, the answer up to this step. */
  function drawStep(player) {
    const { run, at } = player, { reads, title } = player.look(), wide = 1000, edge = 32, pitch = 46;
    const map = document.createElement("canvas"), sheet = document.createElement("canvas"), pen = sheet.getContext("2d");
    player.stage.paint(map, reads, wide);
    pen.font = `28px ${SANS}`;
    const shown = flow(pen, run.words.filter((word) => word.step <= at), wide), notice = run.prefill?.outside ? [OUTSIDE.join(" ")] : [];
    sheet.width = wide + 2 * edge;
    const scale = reads.length ? 48 : 0; // room for the legend
    sheet.height = 3 * edge + 92 + map.height + scale + pitch * shown.lines + 34 * notice.length;
    const text = (words, x, y, font, colour) => {
      pen.font = `${font} ${SANS}`;
      pen.fillStyle = colour;
      pen.fillText(words, x, y, wide - (x - edge));
    };
    pen.fillStyle = "#ffffff";
    pen.fillRect(0, 0, sheet.width, sheet.height);
    text(label(run.started.question, 90), edge, edge + 28, "600 30px", INK);
    pen.drawImage(map, edge, edge + 52);
    text(`step ${Math.max(0, at)} of ${run.steps} · ${title}`, edge, edge + 92 + map.height, "22px", SOFT);
    if (scale) player.stage.legendOn(pen, edge, edge + 132 + map.height, reads);
    const top = 2 * edge + 92 + map.height + scale;
    for (const piece of shown.pieces) drawPiece(pen, piece, edge + piece.x, top + piece.line * pitch + 28, piece.word.step === at);
    notice.forEach((line) => text(line, edge, sheet.height - edge, "600 22px", WARNING));
    return sheet;
  }

  /** Lays words out in lines of ``wide`` px: {lines, pieces: [{word, text, x, line, width}]}. */
  function flow(pen, words, wide) {
    const pieces = [];
    let x = 0, line = 0;
    for (const word of words) {
      const text = label(word.text, 80), space = /^\s/.test(word.text) && x ? pen.measureText(" ").width : 0, width = pen.measureText(text).width;
      if (x && x + space + width > wide) {
        line += 1;
        x = 0;
      } else x += space;
      pieces.push({ word, text, x, line, width });
      x += width + 1;
    }
    return { lines: line + 1, pieces };
  }

  function drawPiece(pen, { word, text, width }, x, base, now) {
    if (now) {
      pen.fillStyle = WASH;
      pen.fillRect(x, base - 27, width, 38);
    }
    pen.font = `28px ${SANS}`;
    pen.fillStyle = INK;
    pen.fillText(text, x, base);
    LINES[word.status].forEach((colour, i) => {
      pen.fillStyle = colour;
      pen.fillRect(x, base + 7 + 4 * i, width, 2);
    });
  }

  Object.assign(FOVEA, { buildSaves, drawStep });
})();
