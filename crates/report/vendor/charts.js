// What the pages use of Vega and Vega-Lite; the bundle makes a global `charts` of it.
export { View, parse } from "vega";
export { expressionInterpreter } from "vega-interpreter";
export { compile } from "vega-lite";
