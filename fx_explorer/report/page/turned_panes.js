// Which text each pane of the linked view turns to when a line is selected: texts of one compiled
// version and, as far as it has them, of one direction.

function turnPanes(view, place, links) {
  const { texts } = view.data;
  const text = texts[place.number];
  const linked = Object.keys(links).map(Number);
  const source = view.panes.find((pane) => pane.name === "source");
  const isSourceShown = !source || text.pane === "source" || links[source.number];
  const file = linked.find((number) => texts[number].pane === "source");
  if (!isSourceShown && file !== undefined) source.show(file);
  const compilation = compilationFor(view, text, links);
  if (compilation === undefined) return;
  for (const pane of view.graphPanes) {
    const isClicked = pane.number === place.number && pane.accepts(text);
    if (!isClicked) turnGraph(view, pane, compilation, view.directionOf(text), links);
  }
  const graph = view.isBoth ? null : view.graphPanes[0]?.text;
  const direction = view.directionOf(text) || graph?.direction || "";
  for (const pane of view.panes) {
    const isCode = pane.name === "kernel" || pane.name === "level";
    const code = pane.name === "level" && view.panes.find((other) => other.name === "kernel").text;
    const wanted = code ? view.directionOf(code) : direction;
    if (isCode && pane.number !== place.number) turnCode(view, pane, compilation, wanted, place, links);
  }
}

// The version of a line: of a source line that is in several, the graph's, which is on screen, else
// the first that has a graph and code with lines of it.
function compilationFor(view, text, links) {
  const { texts } = view.data;
  const numbers = Object.keys(links).map(Number).filter((number) => texts[number].pane !== "source");
  if (!numbers.length) return undefined;
  if (text.pane !== "source") return view.compilationOf(text);
  const ofGraphs = new Set();
  const ofCode = new Set();
  for (const number of numbers) {
    const linked = texts[number];
    const compilation = view.compilationOf(linked);
    if (view.graphPanes.some((pane) => pane.accepts(linked))) ofGraphs.add(compilation);
    if (linked.pane === "kernel" && !isWhole(linked, links[number])) ofCode.add(compilation);
  }
  const shown = view.graphPanes.find((pane) => pane.text)?.text.compilation;
  if (ofGraphs.has(shown)) return shown;
  const all = numbers.map((number) => view.compilationOf(texts[number]));
  return all.find((each) => ofGraphs.has(each) && ofCode.has(each))
    ?? all.find((each) => ofGraphs.has(each) || ofCode.has(each)) ?? all[0];
}

function turnGraph(view, pane, compilation, direction, links) {
  const stage = pane.text && stageOf(pane.text);
  turn(view, pane, compilation, (number, text) => [
    number in links,
    !direction || !text.direction || text.direction === direction,
    number === pane.number,
    stageOf(text) === stage,
  ]);
}

// The forward and the backward graph are of one stage.
function stageOf(graph) { return graph.stage === "backward" ? "forward" : graph.stage; }

// Of the code, the text with the most linked lines, kernels before the output code, which has the
// lines of all its kernels. What is on screen stays, if it is as good.
function turnCode(view, pane, compilation, direction, place, links) {
  const kernel = view.panes.find((other) => other.name === "kernel");
  const below = view.data.texts[place.number].kernel;
  turn(view, pane, compilation, (number, text) => {
    const runs = links[number] || [];
    const ofText = view.directionOf(text);
    const isOfDirection = !direction || !ofText || ofText === direction;
    const isLinked = runs.length > 0 && !isWhole(text, runs);
    const isBelow = pane.name === "level";
    return [
      isBelow ? text.kernel === kernel.number : number === below,
      isBelow && isOfDirection,
      isLinked,
      isOfDirection,
      runs.length > 0,
      number === pane.number,
      Boolean(direction) || ofText !== "backward",
      text.stage !== "output_code",
      lineCount(runs),
      text.weight,
    ];
  });
}

// Shows the text of a version that ranks first: the ranks are compared one by one.
function turn(view, pane, compilation, rank) {
  let best = -1;
  let bestRank = [];
  for (const [number, text] of view.data.texts.entries()) {
    if (!pane.accepts(text) || view.compilationOf(text) !== compilation) continue;
    const ranks = rank(number, text).map(Number);
    const at = ranks.findIndex((value, index) => value !== bestRank[index]);
    if (best >= 0 && (at < 0 || ranks[at] < bestRank[at])) continue;
    best = number;
    bestRank = ranks;
  }
  if (best >= 0) { pane.show(best); return; }
  const isOfVersion = (text) => text.pane !== "source" && view.compilationOf(text) === compilation;
  const name = versionName(view.data.texts.find(isOfVersion));
  pane.showNothing(pane.direction ? `${name} has no ${pane.direction} graph` : `nothing of ${name}`);
}
