// Stands in for the package `vega`, which Vega-Lite imports: the same modules without maps, trees,
// forces, word clouds and other transforms that no chart here has.
import { transforms } from "vega-dataflow";
import * as data from "vega-transforms";
import * as encode from "vega-encode";
import * as view from "vega-view-transforms";

Object.assign(transforms, data, encode, view);

export * from "vega-loader";
export * from "vega-statistics";
export * from "vega-time";
export * from "vega-util";
export { parseSelector } from "vega-event-selector";
export { codegenExpression, parseExpression } from "vega-expression";
export { numberFormatDefaultLocale as formatLocale, timeFormatDefaultLocale as timeFormatLocale } from "vega-format";
export { expressionFunction } from "vega-functions";
export { parse } from "vega-parser";
export { scheme } from "vega-scale";
export { View } from "vega-view";
