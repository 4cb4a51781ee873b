#!/bin/sh
# Makes charts.min.js.gz and LICENSES.txt anew from the versions in package-lock.json (needs npm).
set -eu
cd "$(dirname "$0")"
npm ci --ignore-scripts
npx esbuild charts.js --bundle --minify --format=iife --global-name=charts --target=es2022 \
    --alias:vega=./vega.js --legal-comments=none --metafile=node_modules/parts.json \
    --outfile=node_modules/charts.min.js
node -e '
const fs = require("fs");
const parts = Object.keys(require("./node_modules/parts.json").inputs);
const packages = parts.map((part) => part.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//)).filter(Boolean);
const names = [...new Set(packages.map((found) => found[1]))].sort();
const text = names.map((name) => {
  const folder = "node_modules/" + name + "/";
  const about = JSON.parse(fs.readFileSync(folder + "package.json"));
  const file = fs.readdirSync(folder).find((file) => /^licen[cs]e/i.test(file));
  return ["=".repeat(80), name + " " + about.version + " (" + about.license + ")", "", fs.readFileSync(folder + file, "utf8").trim(), ""].join("\n");
});
fs.writeFileSync("LICENSES.txt", text.join("\n"));
'
{ printf '/*\n'; cat LICENSES.txt; printf '*/\n'; cat node_modules/charts.min.js; } | gzip -9n >charts.min.js.gz
rm -r node_modules
