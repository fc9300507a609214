/* Masses over the picture: palettes, the smooth field, the drawing. A map is {values, scale, chosen, top}. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});

  const STOPS = {
    viridis: "440154 482878 3e4989 31688e 26828e 1f9e89 35b779 6ece58 b5de2b fde725",
    cividis: "00224e 123570 3b496c 575d6d 707173 8a8678 a59c74 c3b369 e1cc55 fee838",
    magma: "000004 180f3d 440f76 721f81 9e2f7f cd4071 f1605d fd9668 feca8d fcfdbf",
  };
  const PALETTES = ["viridis", "cividis", "magma", "spotlight"];
  const FIELD_PX = 224; // long side of the smooth field; the canvas scales it up

  const tables = {};
  /** 256 colours of a palette as one Uint8Array (256 x 3). */
  function colours(name) {
    if (tables[name]) return tables[name];
    const stops = STOPS[name].split(" ").map((hex) => [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16)));
    const table = new Uint8Array(256 * 3);
    for (let i = 0; i < 256; i += 1) {
      const at = (i / 255) * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2), part = at - low;
      for (let c = 0; c < 3; c += 1) table[i * 3 + c] = Math.round(stops[low][c] * (1 - part) + stops[low + 1][c] * part);
    }
    return (tables[name] = table);
  }

  /** CSS gradient of a palette for the legend. */
  function gradient(name) {
    if (name === "spotlight") return "linear-gradient(90deg, rgba(0,0,0,.72), rgba(0,0,0,0))";
    return `linear-gradient(90deg, ${STOPS[name].split(" ").map((hex) => "#" + hex).join(", ")})`;
  }

  /** How opaque a share of the scale is drawn, before the reader's opacity: little mass hides little of the picture. */
  const cover = (share) => (share <= 0 ? 0 : Math.min(1, 0.18 + 0.95 * Math.sqrt(share)));

  /** Where along one axis each pixel of a field falls on a tile: the two nearest cells and the weight of the second. */
  function axis(size, low, high, cells) {
    const first = new Int32Array(size), second = new Int32Array(size), weight = new Float32Array(size), inside = new Uint8Array(size);
    for (let i = 0; i < size; i += 1) {
      const cell = (((i + 0.5) / size - low) / (high - low)) * cells;
      inside[i] = cell >= 0 && cell < cells ? 1 : 0;
      const centre = cell - 0.5, floor = Math.floor(centre);
      first[i] = Math.min(cells - 1, Math.max(0, floor));
      second[i] = Math.min(cells - 1, Math.max(0, floor + 1));
      weight[i] = centre - floor;
    }
    return { first, second, weight, inside };
  }

  /** Draws maps of one run at one picture shape. ``run`` gives tiles and validity; ``aspect`` = width / height. */
  class Heat {
    constructor(run, aspect) {
      this.run = run;
      this.width = aspect >= 1 ? FIELD_PX : Math.max(1, Math.round(FIELD_PX * aspect));
      this.height = aspect >= 1 ? Math.max(1, Math.round(FIELD_PX / aspect)) : FIELD_PX;
      this.field = new Float32Array(this.width * this.height);
      this.axes = run.tiles.map((t) => ({
        tile: t, x: axis(this.width, t.box[0], t.box[2], t.columns), y: axis(this.height, t.box[1], t.box[3], t.rows),
      }));
      this.buffer = document.createElement("canvas");
      this.buffer.width = this.width;
      this.buffer.height = this.height;
      this.pen = this.buffer.getContext("2d");
      this.image = this.pen.createImageData(this.width, this.height);
    }

    /** Fills the field with masses: bilinear between cell centres over valid cells only, views added up. */
    _spread(values) {
      const { field, width, run } = this;
      field.fill(0);
      for (const { tile, x, y } of this.axes) {
        for (let j = 0; j < this.height; j += 1) {
          if (!y.inside[j]) continue;
          const up = tile.first + y.first[j] * tile.columns, down = tile.first + y.second[j] * tile.columns, v = y.weight[j];
          for (let i = 0; i < width; i += 1) {
            if (!x.inside[i]) continue;
            const a = up + x.first[i], b = up + x.second[i], c = down + x.first[i], d = down + x.second[i], u = x.weight[i];
            const wa = (1 - u) * (1 - v) * run.valid[a], wb = u * (1 - v) * run.valid[b];
            const wc = (1 - u) * v * run.valid[c], wd = u * v * run.valid[d];
            const sum = wa + wb + wc + wd;
            if (sum > 0) field[j * width + i] += (wa * values[a] + wb * values[b] + wc * values[c] + wd * values[d]) / sum;
          }
        }
      }
    }

    /** Draws ``map`` over the whole of ``canvas``. options: palette, opacity 0..1, exact (whole cells instead of the smooth field). */
    draw(canvas, map, options) {
      const pen = canvas.getContext("2d");
      pen.clearRect(0, 0, canvas.width, canvas.height);
      if (!map) return;
      if (options.exact) this._cells(pen, canvas, map, options);
      else {
        this._spread(map.values);
        this._colour(map.scale, options);
        pen.imageSmoothingEnabled = true;
        pen.imageSmoothingQuality = "high";
        pen.drawImage(this.buffer, 0, 0, canvas.width, canvas.height);
      }
    }

    _colour(scale, { palette, opacity }) {
      const { field, image } = this, spot = palette === "spotlight", table = spot ? null : colours(palette);
      for (let i = 0; i < field.length; i += 1) {
        const share = Math.min(1, field[i] / scale), at = i * 4;
        if (spot) {
          image.data[at] = image.data[at + 1] = image.data[at + 2] = 0;
          image.data[at + 3] = 255 * opacity * (1 - Math.min(1, 1.6 * Math.sqrt(share)));
        } else {
          const c = Math.round(share * 255) * 3;
          image.data[at] = table[c];
          image.data[at + 1] = table[c + 1];
          image.data[at + 2] = table[c + 2];
          image.data[at + 3] = 255 * opacity * cover(share);
        }
      }
      this.pen.putImageData(image, 0, 0);
    }

    _cells(pen, canvas, map, { palette, opacity }) {
      const spot = palette === "spotlight", table = spot ? null : colours(palette);
      for (const tile of this.run.tiles)
        for (let entry = tile.first; entry < tile.first + tile.rows * tile.columns; entry += 1) {
          if (!this.run.valid[entry] || (!spot && !map.values[entry])) continue;
          const share = Math.min(1, map.values[entry] / map.scale), c = Math.round(share * 255) * 3;
          pen.globalAlpha = opacity * (spot ? 1 - Math.min(1, 1.6 * Math.sqrt(share)) : cover(share));
          pen.fillStyle = spot ? "#000" : `rgb(${table[c]},${table[c + 1]},${table[c + 2]})`;
          const [left, top, right, bottom] = pixels(this.run.place(entry).box, canvas);
          pen.fillRect(left, top, right - left, bottom - top);
        }
      pen.globalAlpha = 1;
    }

    /** Outlines the union of ``entries`` on ``canvas``, the line ``line`` px wide in ``colour`` over a dark rim. */
    outline(canvas, entries, colour, line) {
      const pen = canvas.getContext("2d"), wanted = new Set(entries);
      pen.beginPath();
      for (const entry of wanted) {
        const { tile, row, column, box } = this.run.place(entry);
        const [left, top, right, bottom] = pixels(box, canvas, line / 2);
        const free = (r, c) => r < 0 || c < 0 || r >= tile.rows || c >= tile.columns || !wanted.has(tile.first + r * tile.columns + c);
        const side = (open, x1, y1, x2, y2) => open && (pen.moveTo(x1, y1), pen.lineTo(x2, y2));
        side(free(row - 1, column), left, top, right, top);
        side(free(row + 1, column), left, bottom, right, bottom);
        side(free(row, column - 1), left, top, left, bottom);
        side(free(row, column + 1), right, top, right, bottom);
      }
      pen.lineCap = "square";
      pen.strokeStyle = "rgba(0,0,0,.45)";
      pen.lineWidth = line * 2.2;
      pen.stroke();
      pen.strokeStyle = colour;
      pen.lineWidth = line;
      pen.stroke();
    }
  }

  /** A box in fractions as whole pixels of ``canvas``, clipped to it (``inset`` keeps a line inside). */
  function pixels(box, canvas, inset = 0) {
    const clip = (value, size) => Math.round(Math.min(size - inset, Math.max(inset, value * size)));
    return [clip(box[0], canvas.width), clip(box[1], canvas.height), clip(box[2], canvas.width), clip(box[3], canvas.height)];
  }

  /** Values per entry of one read, or the mean of several. */
  function valuesOf(run, reads) {
    const values = new Float32Array(run.entryCount);
    for (const read of reads) for (let i = 0; i < read.size; i += 1) values[read.entries[i]] += read.masses[i] / reads.length;
    return values;
  }

  Object.assign(FOVEA, { Heat, PALETTES, gradient, valuesOf });
})();
