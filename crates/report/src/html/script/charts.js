// Charts are drawn when they come near, and anew when their width changes.
const views = new Map();
const hiddenIn = new Map();
// Values that were chosen for parameters of a chart, by its figure.
const chosenIn = new Map();
const specOf = (chart) => page.figures[chart.closest("figure").id].chart;
// Charts of one kind are switched together.
const groupOf = (chart) => chart.closest(".linked") ?? chart;

const viewOf = (chart, width, config, view) => {
  const spec = specOf(chart);
  const own = [{ name: "room", value: width }, { name: "hidden", value: hiddenIn.get(groupOf(chart)) ?? [] }];
  const chosen = chosenIn.get(chart.closest("figure").id) ?? {};
  const params = [...(spec.params ?? []).map((param) => ({ ...param, value: chosen[param.name] ?? param.value })), ...own];
  const vega = charts.compile({ ...spec, width, params }, { config }).spec;
  return new charts.View(charts.parse(vega, null, { ast: true }), { expr: charts.expressionInterpreter, ...view });
};
const draw = (chart) => {
  const { legend, widest } = specOf(chart).usermeta ?? {};
  const config = legend ? { ...page.config, legend: { disable: true } } : page.config;
  const width = Math.min(chart.clientWidth, widest ?? Infinity);
  chart.drawnWidth = chart.clientWidth;
  views.get(chart)?.finalize();
  const view = viewOf(chart, width, config, { renderer: "svg" });
  views.set(chart, view);
  view.tooltip(onTip).initialize(chart).run();
};
// A chart that fails leaves the others alone.
const drawOnce = (chart) => {
  if (views.has(chart)) return;
  try { draw(chart); } catch (error) { reportError(error); }
};

// Names in legends are switches.
const signOf = ({ colour, sign }) => {
  const made = make("i", { className: "dot", textContent: sign?.shape ?? "" });
  if (sign?.shape) made.style = "background:none;color:" + colour;
  else if (sign?.dash) {
    made.className = "dash";
    made.innerHTML = '<svg viewBox="0 0 26 4"><path d="M0 2h26" stroke-width="2.2" stroke="' + colour + '" stroke-dasharray="' + sign.dash.join(" ") + '"/></svg>';
  } else {
    made.style = "background:" + colour;
    if (sign?.filling < 1) made.style = "box-shadow:inset 0 0 0 1px " + colour + ";background:color-mix(in srgb," + colour + " " + 100 * sign.filling + "%,transparent)";
  }
  return made;
};
const toggle = (group, label) => {
  const before = hiddenIn.get(group) ?? [];
  const hidden = before.includes(label) ? before.filter((name) => name !== label) : [...before, label];
  hiddenIn.set(group, hidden);
  all(".legend button", group.closest("figure") ?? group).forEach((item) => {
    item.setAttribute("aria-pressed", String(!hidden.includes(item.dataset.series)));
  });
  views.forEach((view, chart) => { if (groupOf(chart) === group) view.signal("hidden", hidden).run(); });
};
// Charts that are switched together have one legend, above the first.
const startLegend = (chart) => {
  const group = groupOf(chart);
  const items = specOf(chart).usermeta?.legend ?? [];
  if (!items.length || group.querySelector(".legend")) return;
  const box = make("div", { className: "legend" });
  items.forEach((item) => {
    const made = button(box, "", "show " + item.label, () => toggle(group, item.label));
    made.dataset.series = item.label;
    made.setAttribute("aria-pressed", "true");
    made.append(signOf(item), item.label);
  });
  if (group === chart) chart.before(box); else group.prepend(box);
};

const near = new IntersectionObserver((entries) => entries
  .filter((entry) => entry.isIntersecting)
  .forEach((entry) => { near.unobserve(entry.target); drawOnce(entry.target); }), { rootMargin: "600px" });
const startCharts = (root) => {
  const found = all(".chart", root);
  found.forEach((chart) => { startLegend(chart); startChoice(chart); walkByKeys(chart); });
  // What is seen at once waits for nothing.
  const isSeen = (chart) => chart.clientWidth > 0 && chart.getBoundingClientRect().top < innerHeight;
  found.forEach((chart) => { if (isSeen(chart)) drawOnce(chart); else near.observe(chart); });
};
let waiting = 0;
addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => views.forEach((view, chart) => {
    if (chart.clientWidth && chart.clientWidth !== chart.drawnWidth) draw(chart);
  }), 150);
});
