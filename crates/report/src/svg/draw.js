// Draws a chart without a browser. What the library expects of one is here, and no more.
globalThis.window = globalThis;
globalThis.console = { log() {}, warn() {}, error() {} };
globalThis.structuredClone ??= (value) => (value === undefined ? value : JSON.parse(JSON.stringify(value)));
globalThis.setTimeout = (action) => { Promise.resolve().then(action); return 0; };
globalThis.clearTimeout = () => {};
globalThis.setInterval = () => 0;
globalThis.clearInterval = () => {};

// Widths of the letters from space to tilde in thousandths of their size, in Helvetica. Other fonts are
// wider than that, DejaVu Sans by a sixth.
const WIDTHS = [
  278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
  556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
  1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
  667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
  333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
  556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];
const WIDER = 1.17;
const widthOf = (letter) => WIDTHS[letter.codePointAt(0) - 32] ?? 600;
const ruler = {
  font: "10px sans-serif",
  measureText(text) {
    const size = parseFloat(/([\d.]+)px/.exec(this.font)?.[1] ?? 10);
    return { width: [...text].reduce((sum, letter) => sum + widthOf(letter), 0) * size * WIDER / 1000 };
  },
};
globalThis.document = { createElement: () => ({ getContext: () => ruler }) };

// As the page's script does it.
globalThis.draw = (text, width, config) => {
  const spec = JSON.parse(text);
  const own = [{ name: "room", value: width }, { name: "hidden", value: [] }];
  const params = [...(spec.params ?? []), ...own];
  const vega = charts.compile({ ...spec, width, params }, { config: JSON.parse(config) }).spec;
  const view = new charts.View(charts.parse(vega, null, { ast: true }), { expr: charts.expressionInterpreter, renderer: "none" });
  return view.toSVG();
};
