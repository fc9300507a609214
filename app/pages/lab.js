// One study. props.study: {name, title, question, command, committed: Shown or null, runs: null or {quick, full}}; props.value:
// {order, state: idle | busy | done | trouble, text, share: 0..1 or null, here: Shown or null}. Shown: see app/lab/study.py.
// All texts reach the page by textContent; figures are drawn by plotly once they are in view.
const PLOTLY = `${window.gradio_config?.root ?? ""}/gradio_api/file=${FILE}`;
const $ = (name) => element.querySelector(name);
const study = props.study;
let newest = 0, drawn = null;

const make = (tag, className, ...parts) => {
  const made = Object.assign(document.createElement(tag), { className });
  made.append(...parts);
  return made;
};
const save = (text, name) => window.FOVEA.download(new Blob([text], { type: "text/csv;charset=utf-8" }), name);

const picture = (plot, { figure }) => {
  let Plotly = null;
  const fit = async () => {
    if (!plot.clientWidth) return; // its tab is not in view
    if (plot.data) return Plotly?.Plots.resize(plot);
    if (plot.dataset.asked) return;
    plot.dataset.asked = "yes";
    try {
      Plotly = await window.FOVEA.plotly(PLOTLY);
      await Plotly.newPlot(plot, figure.data, figure.layout, { displayModeBar: false });
    } catch {
      delete plot.dataset.asked;
      plot.textContent = "The figure could not be drawn: the script that draws it did not arrive. The numbers are below.";
    }
  };
  new ResizeObserver(fit).observe(plot);
};

const photograph = async ({ figure, label, where }, name) => {
  const Plotly = await window.FOVEA.plotly(PLOTLY), { layout } = figure, title = { text: `${study.title}<br><sub>${label}. ${where}</sub>` };
  const solid = { paper_bgcolor: "#fff", plot_bgcolor: "#fff", font: { ...layout.font, color: "#222" } };
  const options = { format: "png", width: 1000, height: (layout.height || 400) + 70, scale: 2, filename: name };
  await Plotly.downloadImage({ data: figure.data, layout: { ...layout, ...solid, title, margin: { ...layout.margin, t: 110 } } }, options);
};

const table = ({ columns, rows }) => {
  const head = make("tr", "", ...columns.map((name) => Object.assign(make("th", "", name), { scope: "col" })));
  const body = rows.map(([first, ...cells]) => make("tr", "", Object.assign(make("th", "", first), { scope: "row" }), ...cells.map((cell) => make("td", "", cell))));
  const scroll = make("div", "fx-scroll", make("table", "fx-table", make("thead", "", head), make("tbody", "", ...body)));
  scroll.tabIndex = 0;
  return scroll;
};

const column = (shown, suffix) => {
  const name = `${study.name}${suffix}`, plot = make("div", "fx-figure"), link = (text, does) => {
    const button = make("button", "fx-save", text);
    button.type = "button";
    button.setAttribute("aria-label", `${text} of: ${shown.label.toLowerCase()}`);
    button.addEventListener("click", does);
    return button;
  };
  plot.setAttribute("role", "img");
  plot.setAttribute("aria-label", `${study.title} ${shown.readings[0] || ""}`);
  plot.style.minHeight = `${shown.figure.layout.height || 300}px`;
  picture(plot, shown);
  const readings = make("ul", "fx-readings", ...shown.readings.map((line) => make("li", "", line)));
  const numbers = make("details", "fx-numbers", make("summary", "", "The numbers"), table(shown));
  const saves = make("p", "fx-saves", link("CSV", () => save(shown.csv, `${name}.csv`)), link("PNG", () => photograph(shown, name)));
  return make("article", "fx-shown", make("h3", "", shown.label), make("p", "fx-note", shown.where), plot, readings, numbers, saves);
};

const show = () => {
  const value = props.value;
  if (!value || value.order < newest) return;
  newest = value.order;
  const busy = value.state === "busy", now = $(".fx-rerun-now"), bar = $("progress");
  for (const name of [".fx-quick", ".fx-full"]) $(name).hidden = busy;
  $(".fx-cancel").hidden = bar.hidden = !busy;
  if (value.share === null) bar.removeAttribute("value");
  else bar.value = value.share;
  if (now.textContent !== value.text) now.textContent = value.text;
  now.dataset.state = value.state;
  const stamp = JSON.stringify(value.here);
  if (stamp === drawn) return;
  drawn = stamp;
  const columns = [[study.committed, ""], [value.here, "-here"]].filter(([shown]) => shown);
  $(".fx-study-row").replaceChildren(...columns.map(([shown, suffix]) => column(shown, suffix)));
};

$(".fx-title").textContent = study.title;
$(".fx-asked").textContent = study.question;
$(".fx-rerun code").textContent = study.command;
$(".fx-rerun").hidden = !study.runs;
for (const way of ["quick", "full"]) {
  $(`.fx-${way}`).textContent = study.runs?.[way] || "";
  $(`.fx-${way}`).addEventListener("click", () => trigger("measure", { way }));
}
$(".fx-cancel").addEventListener("click", () => trigger("cancel"));
watch("value", show);
show();
