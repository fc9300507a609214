// Which model answers. Value: {order, models: [{name, title, here, about, command}], current, state, text, health}; health: null or
// {ok, text, report}. state: idle, busy, done or trouble. All texts reach the page by textContent.
const $ = (name) => element.querySelector(".fx-model" + name);
const select = $(" select");
let newest = 0, value = null, chosen = null;

const make = (tag, className, text) => Object.assign(document.createElement(tag), { className, textContent: text ?? "" });
const card = () => value.models.find((model) => model.name === chosen) || value.models[0];

const show = () => {
  const model = card(), busy = value.state === "busy", here = model.name === value.current && !busy;
  select.replaceChildren(...value.models.map((each) => {
    const option = make("option", "", each.here ? each.title : `${each.title} (not on this machine)`);
    option.value = each.name;
    return option;
  }));
  select.value = model.name;
  select.disabled = busy;
  const about = (here ? [] : model.about).filter(Boolean).map((line) => make("p", "", line));
  if (!model.here && model.command && !busy) {
    about.push(make("p", "", "This brings it here and checks it:"), make("code", "", model.command));
  }
  $("-about").replaceChildren(...about);
  const check = here && value.state !== "trouble" ? value.health : null;
  const now = $("-now"), text = value.text || check?.text || "";
  if (now.textContent !== text) now.textContent = text;
  now.dataset.state = value.text ? value.state : check ? (check.ok ? "done" : "trouble") : "idle";
  $("-load").hidden = busy || here || !model.here;
  $("-cancel").hidden = !busy || !value.mine;
  $("-report").hidden = !(here && value.health);
};

select.addEventListener("change", () => {
  chosen = select.value;
  value = { ...value, text: "", state: "idle" };
  show();
});
$("-load").addEventListener("click", () => {
  value = { ...value, state: "busy", mine: true, text: `Asking for ${card().title} …` };
  show();
  trigger("choose", { name: chosen });
});
$("-cancel").addEventListener("click", () => trigger("cancel"));
$("-report").addEventListener("click", () => {
  const file = new Blob([value.health.report + "\n"], { type: "application/json" });
  window.FOVEA.download(file, `doctor-${card().title.replace(/[^\w.-]+/g, "-")}.json`);
});
const take = () => {
  if (!props.value || props.value.order < newest) return;
  const moved = !value || props.value.current !== value.current || chosen === null;
  value = props.value;
  newest = value.order;
  if (value.state === "busy" && value.wanted) chosen = value.wanted;
  else if (moved) chosen = value.current;
  show();
};
watch("value", take);
take();
