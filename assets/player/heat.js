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

  /** CSS colours of a palette for a legend, evenly spaced. */
  const stopsOf = (name) => (name === "spotlight" ? ["rgba(0,0,0,.72)", "rgba(0,0,0,0)"] : STOPS[name].split(" ").map((hex) => "#" + hex));
  const gradient = (name) => `linear-gradient(90deg, ${stopsOf(name).join(", ")})`;

  /** Where along the palette a share of the scale stands: its root, so that a quarter of the largest mass has the middle colour.
      Straight, most of what was retrieved would be as dark as a shadow. */
  const tone = (share) => Math.round(Math.sqrt(share) * 255);

  /** How opaque a share of the scale is drawn, before the reader's opacity: little mass hides little of the picture. */
  const cover = (share) => 1 - (1 - share) ** 3;

  /** Where along one axis each pixel of a field falls on a tile: its two nearest cells and the weights of a cubic between them. */
  function axis(size, low, high, cells) {
    const first = new Int32Array(size), second = new Int32Array(size), inside = new Uint8Array(size), cubic = new Float32Array(size * 4);
    for (let i = 0; i < size; i += 1) {
      const cell = (((i + 0.5) / size - low) / (high - low)) * cells, floor = Math.floor(cell - 0.5), t = cell - 0.5 - floor;
      inside[i] = cell >= 0 && cell < cells ? 1 : 0;
      first[i] = Math.min(cells - 1, Math.max(0, floor));
      second[i] = Math.min(cells - 1, Math.max(0, floor + 1));
      cubic.set([1 - t * t * (3 - 2 * t), t * (1 - t) ** 2, t * t * (3 - 2 * t), -t * t * (1 - t)], i * 4);
    }
    return { first, second, inside, cubic };
  }

  /** Slope at a sample between its neighbours that keeps a cubic from overshooting: 0 at peaks, else their harmonic mean. */
  function slope(before, at, after) {
    const a = at - before, b = after - at;
    return a * b <= 0 ? 0 : (2 * a * b) / (a + b);
  }

  /** Slopes of ``lines`` rows (``step`` apart) of ``count`` samples (``stride`` apart). */
  function slopes(values, lines, step, count, stride) {
    const out = new Float32Array(values.length);
    for (let line = 0; line < lines; line += 1)
      for (let i = 1; i < count - 1; i += 1) {
        const at = line * step + i * stride;
        out[at] = slope(values[at - stride], values[at], values[at + stride]);
      }
    return out;
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

    /** Fills the field with masses: a smooth surface through the cell centres that never exceeds the cells; views added up. */
    _spread(values) {
      const { field, width, height } = this;
      field.fill(0);
      for (const { tile, x, y } of this.axes) {
        const { rows, columns } = tile, cells = this._extended(tile, values), across = slopes(cells, rows, columns, columns, 1);
        const lines = new Float32Array(rows * width);
        for (let row = 0; row < rows; row += 1)
          for (let i = 0; i < width; i += 1) {
            const a = row * columns + x.first[i], b = row * columns + x.second[i], w = i * 4;
            lines[row * width + i] = x.cubic[w] * cells[a] + x.cubic[w + 1] * across[a] + x.cubic[w + 2] * cells[b] + x.cubic[w + 3] * across[b];
          }
        const down = slopes(lines, width, 1, rows, width);
        for (let j = 0; j < height; j += 1) {
          if (!y.inside[j]) continue;
          const up = y.first[j] * width, low = y.second[j] * width, w = j * 4;
          for (let i = 0; i < width; i += 1)
            if (x.inside[i]) field[j * width + i] += y.cubic[w] * lines[up + i] + y.cubic[w + 1] * down[up + i] + y.cubic[w + 2] * lines[low + i] + y.cubic[w + 3] * down[low + i];
        }
      }
    }

    /** The tile's masses, with invalid cells beside valid ones filled with the mean of those, so that padding draws no edge. */
    _extended({ rows, columns, first }, values) {
      const cells = new Float32Array(rows * columns), { valid } = this.run;
      for (let row = 0; row < rows; row += 1)
        for (let column = 0; column < columns; column += 1) {
          const at = row * columns + column;
          if (valid[first + at]) {
            cells[at] = values[first + at];
            continue;
          }
          let sum = 0, count = 0;
          for (let r = Math.max(0, row - 1); r <= Math.min(rows - 1, row + 1); r += 1)
            for (let c = Math.max(0, column - 1); c <= Math.min(columns - 1, column + 1); c += 1)
              if (valid[first + r * columns + c]) {
                sum += values[first + r * columns + c];
                count += 1;
              }
          if (count) cells[at] = sum / count;
        }
      return cells;
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
        const share = Math.min(1, Math.max(0, field[i] / scale)), at = i * 4;
        if (spot) {
          image.data[at] = image.data[at + 1] = image.data[at + 2] = 0;
          image.data[at + 3] = 255 * opacity * (1 - Math.min(1, 1.6 * Math.sqrt(share)));
        } else {
          const c = tone(share) * 3;
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
          const share = Math.min(1, map.values[entry] / map.scale), c = tone(share) * 3;
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
      pen.strokeStyle = "rgba(0,0,0,.3)";
      pen.lineWidth = line * 2;
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

  Object.assign(FOVEA, { Heat, PALETTES, gradient, stopsOf, valuesOf });
})();
