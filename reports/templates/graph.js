// Select a claim in the proof graph: its ancestors and descendants, its depth; the selection and the view are kept in the URL.
(() => {
  const svg = document.querySelector("svg.proof[role=group]");
  const data = JSON.parse(document.getElementById("graph-data").textContent);
  if (!svg) { State.start(); return; }
  const nodes = new Map([...svg.querySelectorAll("a.node")].map((n) => [n.dataset.id, n]));
  const edges = [...svg.querySelectorAll(".edge")];
  const known = new Map(Object.entries(data.nodes));
  const children = new Map([...known.keys()].map((id) => [id, []]));
  known.forEach((node, id) => node.parents.forEach((p) => children.get(p).push(id)));
  const reach = (start, next) => {
    const seen = new Set(), stack = [...next(start)];
    while (stack.length) { const id = stack.pop(); if (!seen.has(id)) { seen.add(id); stack.push(...next(id)); } }
    return seen;
  };
  const info = document.getElementById("graph-info");
  const view = document.getElementById("graph-view");
  const many = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
  let painted = 0;
  const paint = (at) => { if (at === painted) return; painted = at; nodes.forEach((node, id) => {
    const [own, fill] = known.get(id).states[at];
    const depth = ["self", "up", "down"].filter((c) => node.classList.contains(c));
    node.setAttribute("class", ["node", `n-${own}`, `f-${fill}`, ...depth].join(" "));
    node.querySelector("use").setAttribute("href", `#glyph-${own}`);
  }); };
  const choose = (id) => {
    const chosen = known.has(id);
    svg.classList.toggle("chosen", chosen);
    const up = chosen ? reach(id, (x) => known.get(x).parents) : new Set();
    const down = chosen ? reach(id, (x) => children.get(x)) : new Set();
    nodes.forEach((node, name) => {
      node.classList.toggle("self", name === id);
      node.classList.toggle("up", up.has(name));
      node.classList.toggle("down", down.has(name));
    });
    edges.forEach((edge) => {
      const { a, b } = edge.dataset;
      edge.classList.toggle("up", (b === id || up.has(b)) && up.has(a));
      edge.classList.toggle("down", (a === id || down.has(a)) && down.has(b));
      edge.classList.toggle("near", a === id || b === id);
    });
    document.getElementById("graph-clear").disabled = !chosen;
    info.textContent = "Select a claim to see what it rests on and what rests on it.";
    if (chosen) {
      const node = known.get(id);
      const bad = [...up].filter((x) => ["fail", "error"].includes(known.get(x).states[+view.value || 0][0])).sort((x, y) => known.get(x).depth - known.get(y).depth);
      const link = document.createElement("a");
      link.href = `#claim-${node.anchor}`;
      link.textContent = `${id}: ${node.title}`;
      info.replaceChildren(link, ` · ${node.kind}, depth ${node.depth}, ${many(up.size, "ancestor")}, ${many(down.size, "descendant")}`,
        bad.length ? ` · ${many(bad.length, "ancestor")} failing, first ${bad[0]}` : "");
    }
  };
  svg.addEventListener("click", (event) => {
    const node = event.target.closest("a.node");
    if (!node || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const id = State.get("node") === node.dataset.id ? "" : node.dataset.id;
    State.set("node", id);
    choose(id);
  });
  document.getElementById("graph-clear").addEventListener("click", () => { State.set("node", ""); choose(""); });
  view.addEventListener("input", () => { State.set("view", view.value === "0" ? "" : view.value); paint(+view.value); choose(State.get("node")); });
  document.querySelector(".graph-tools").hidden = false;
  State.listen(() => { view.value = State.get("view") || "0"; paint(+view.value || 0); choose(State.get("node")); });
  State.start();
})();
