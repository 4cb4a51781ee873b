const start = async () => {
  page = JSON.parse(await unpack("data"));
  all("table").forEach(startSorting);
  all(".filtered").forEach(startFilter);
  all("[data-text]").forEach(startText);
  all(".command").forEach(startCommand);
  startPrinting();
  const figures = all("figure");
  if (figures.length) {
    document.head.append(make("script", { textContent: await unpack("library") }));
    figures.forEach(startFigure);
    startCharts();
  }
  document.body.dataset.ready = "yes";
};
start();
