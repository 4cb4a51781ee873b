// Charts are drawn when they come near, and anew when their width changes.
const views = new Map();
const hiddenIn = new Map();
const specOf = (chart) => page.figures[chart.closest("figure").id].chart;
// Charts of one kind are switched together.
const groupOf = (chart) => chart.closest(".linked") ?? chart;

const draw = (chart) => {
  const spec = specOf(chart);
  const width = chart.clientWidth;
  const own = [{ name: "room", value: width }, { name: "hidden", value: hiddenIn.get(groupOf(chart)) ?? [] }];
  const vega = charts.compile({ ...spec, width, params: [...(spec.params ?? []), ...own] }, { config: page.config }).spec;
  views.get(chart)?.finalize();
  const view = new charts.View(charts.parse(vega, null, { ast: true }), { expr: charts.expressionInterpreter, renderer: "svg" });
  views.set(chart, view);
  view.tooltip(onTip).initialize(chart).run();
  startLegend(chart);
};
// A chart that fails leaves the others alone.
const drawOnce = (chart) => {
  if (views.has(chart)) return;
  try { draw(chart); } catch (error) { reportError(error); }
};

// Names in legends are switches.
const legendItem = (part) => (part.__data__?.mark?.role?.startsWith("legend-") ? part.__data__.datum : null);
const startLegend = (chart) => all(".role-legend-label text", chart).forEach((text) => {
  const name = legendItem(text)?.value;
  if (name === undefined || !specOf(chart).data && !specOf(chart).layer) return;
  const isOff = (hiddenIn.get(groupOf(chart)) ?? []).includes(name);
  const attributes = { tabindex: "0", role: "button", "aria-pressed": String(!isOff), "aria-label": "show " + name };
  Object.entries(attributes).forEach(([key, value]) => text.setAttribute(key, value));
  text.classList.toggle("off", isOff);
});
const toggle = (chart, part) => {
  const item = legendItem(part);
  if (!item) return;
  const group = groupOf(chart);
  const before = hiddenIn.get(group) ?? [];
  const hidden = before.includes(item.value) ? before.filter((name) => name !== item.value) : [...before, item.value];
  hiddenIn.set(group, hidden);
  const drawn = group === chart ? [chart] : all(".chart", group);
  drawn.filter((one) => views.has(one)).forEach((one) => {
    views.get(one).signal("hidden", hidden).run();
    startLegend(one);
  });
};

const startChart = (chart) => {
  walkByKeys(chart);
  chart.addEventListener("click", (event) => toggle(chart, event.target));
  chart.addEventListener("keydown", (event) => {
    if (event.target === chart || event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    toggle(chart, event.target);
  });
};
const startCharts = () => {
  const near = new IntersectionObserver((entries) => entries
    .filter((entry) => entry.isIntersecting)
    .forEach((entry) => { near.unobserve(entry.target); drawOnce(entry.target); }), { rootMargin: "600px" });
  all(".chart").forEach((chart) => { startChart(chart); near.observe(chart); });
  let waiting = 0;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => views.forEach((view, chart) => {
      if (chart.clientWidth && chart.clientWidth !== chart.firstElementChild.clientWidth) draw(chart);
    }), 150);
  });
};
