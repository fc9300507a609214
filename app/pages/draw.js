// The editor of a drawn picture. Value: {id, answer, open, kind, seed, edited, parts (JSON), troubles}; parts null: no drawn picture.
// Changes go to the server in batches, one at a time: what is changed meanwhile waits, the latest of each field.
const $ = (name) => element.querySelector(".fx-draw-" + name);
const SOON_MS = 500, LOST_MS = 20000;
let value = null, part = null, waiting = new Map(), written = new Map(), sent = 0, answered = 0, soon = 0, lost = 0;

const make = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};
const ink = (name) => COLOURS[name] || "transparent";

const send = () => {
  clearTimeout(soon);
  if (sent > answered || !waiting.size) return;
  sent += 1;
  const changes = [...waiting.values()];
  waiting.clear();
  lost = setTimeout(() => { answered = sent; send(); }, LOST_MS);
  trigger("edit", { id: value.id, answer: sent, changes });
};
const want = (field, text, now) => {
  const key = part + "/" + field.key;
  waiting.set(key, [part, field.key, text]);
  written.set(key, text);
  clearTimeout(soon);
  if (now) send(); else soon = setTimeout(send, SOON_MS);
};

const chooser = (field) => {
  const box = make("span", "fx-draw-" + field.sort), select = make("select");
  select.title = field.label;
  select.addEventListener("change", () => want(field, select.value, true));
  if (field.sort === "colour") box.append(make("i"));
  box.append(select);
  return [box, select];
};
const offer = (select, field) => {
  const choices = field.choices.includes(field.value) ? field.choices : [field.value, ...field.choices];
  if (choices.join() === [...select.options].map((option) => option.value).join()) return;
  select.replaceChildren(...choices.map((choice) => {
    const option = make("option", "", choice || "as drawn");
    option.value = choice;
    return option;
  }));
};
const writer = (field) => {
  const box = make("span", "fx-draw-" + field.sort + (field.most === 1 ? " fx-draw-single" : "")), input = make("input");
  Object.assign(input, { type: "text", autocomplete: "off", spellcheck: false, placeholder: field.least ? "" : field.most === 1 ? "-" : "none", title: field.label });
  input.setAttribute("autocapitalize", "characters");
  if (field.sort === "number") input.inputMode = "numeric";
  // A field that is being emptied waits until it is left.
  input.addEventListener("input", () => input.value.trim() && want(field, input.value, false));
  input.addEventListener("change", () => want(field, input.value, true));
  box.append(input);
  return [box, input];
};

const showFields = () => {
  const holder = $("fields"), now = value.parts.find((one) => one.key === part);
  const shape = JSON.stringify([value.id, part, now.fields.map((field) => field.key)]);
  if (holder.dataset.shape !== shape) {
    const focused = holder.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const rows = new Map();
    for (const field of now.fields) {
      if (!rows.has(field.row)) {
        rows.set(field.row, make("div", "fx-draw-row"));
        rows.get(field.row).append(make("b", "", field.row));
      }
      const [box, input] = field.choices.length ? chooser(field) : writer(field);
      input.dataset.key = field.key;
      input.setAttribute("aria-label", field.label);
      rows.get(field.row).append(box);
    }
    holder.replaceChildren(...rows.values());
    holder.dataset.shape = shape;
    if (focused) holder.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }
  for (const field of now.fields) {
    const input = holder.querySelector(`[data-key="${CSS.escape(field.key)}"]`);
    const key = part + "/" + field.key;
    const wrong = value.troubles.some(([at, of]) => at === part && of === field.key);
    input.setAttribute("aria-invalid", String(wrong));
    if (field.choices.length) offer(input, field);
    // What is being written, or was refused, stays for the person to mend.
    const shown = wrong || waiting.has(key) ? written.get(key) : field.value;
    if (input.value !== shown) input.value = shown;
    if (field.sort === "colour") input.previousSibling.style.background = ink(input.value);
  }
};

const showParts = () => {
  const holder = $("parts");
  if (!value.parts.some((one) => one.key === part)) part = value.parts[0].key;
  const shape = JSON.stringify([value.id, value.parts.map((one) => one.key)]);
  if (holder.dataset.shape !== shape) {
    holder.replaceChildren(...value.parts.map((one) => {
      const label = make("label"), radio = make("input");
      Object.assign(radio, { type: "radio", name: "fx-draw-part", value: one.key, checked: one.key === part });
      radio.addEventListener("change", () => {
        send();
        part = one.key;
        value = { ...value, troubles: [] };
        show();
      });
      label.append(radio, make("i"), make("span"));
      return label;
    }));
    holder.dataset.shape = shape;
  }
  value.parts.forEach((one, n) => {
    const [radio, dot, name] = holder.children[n].children;
    radio.checked = one.key === part;
    dot.hidden = !one.colour;
    dot.style.background = ink(one.colour);
    name.textContent = one.label;
  });
};

const show = () => {
  element.querySelectorAll("[data-kind]").forEach((button) => {
    button.setAttribute("aria-pressed", String(Boolean(value?.parts) && button.dataset.kind === value.kind));
  });
  $("edit").hidden = !value?.parts;
  if (!value?.parts) return;
  showParts();
  showFields();
  const trouble = value.troubles[value.troubles.length - 1];
  $("said").textContent = trouble ? trouble[2] : "";
  $("seed").setAttribute("aria-invalid", String(value.troubles.some(([at, key]) => !at && key === "seed")));
  if ($("seed").getAttribute("aria-invalid") !== "true") $("seed").value = value.seed;
  $("undo").disabled = !value.edited;
};

watch("value", () => {
  const next = props.value && { ...props.value, parts: JSON.parse(props.value.parts) };
  if (!next || next.order < (value?.order || 0)) return;
  if (next.id !== value?.id) {
    // Another picture: what was meant for the one before is void.
    waiting.clear();
    written.clear();
    answered = sent;
    part = null;
    if (next.parts) $("edit").open = next.open;
  }
  value = next;
  if (next.answer >= sent) {
    answered = sent;
    clearTimeout(lost);
  }
  show();
  send();
});

element.querySelectorAll("[data-kind]").forEach((button) => {
  button.addEventListener("click", () => trigger("draw", { kind: button.dataset.kind, seed: null }));
});
$("dice").addEventListener("click", () => trigger("draw", { kind: value.kind, seed: null }));
$("seed").addEventListener("change", () => trigger("draw", { kind: value.kind, seed: $("seed").value }));
$("undo").addEventListener("click", () => {
  waiting.clear();
  trigger("undo", { id: value.id });
});
