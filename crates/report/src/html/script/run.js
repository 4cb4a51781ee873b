// What stands in a piece of the page begins to work.
const startAll = async (root) => {
  all("table", root).forEach(startSorting);
  all(".filtered", root).forEach(startFilter);
  all("[data-text]", root).forEach(startText);
  all(".command", root).forEach(startCommand);
  all("[data-file]", root).forEach(startFile);
  const figures = all("figure", root);
  if (!figures.length) return;
  await loadLibrary();
  figures.forEach(startFigure);
  startCharts(root);
};
const start = async () => {
  page = JSON.parse(await unpack("data"));
  startPrinting();
  startLink();
  await startAll(document);
  startParts();
  document.body.dataset.ready = "yes";
};
start();
