// Sort, filter and search the table of claims.
(() => {
  const table = document.getElementById("claim-table");
  const form = document.querySelector(".filters");
  if (!table || !form) return;
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  const names = heads.filter((h) => /^v\d+$/.test(h.dataset.sort)).map((h) => h.textContent.trim());
  const info = rows.map((row) => {
    const cells = [...row.querySelectorAll("td[data-v]")].map((c) => c.dataset.v);
    return { row, text: row.textContent.toLowerCase(), verdicts: cells.length === 1 && names.length !== 1 ? names.map(() => cells[0]) : cells, d: row.dataset };
  });
  const ranks = ["DISPROVED", "REFUTED", "ERROR", "NUMERIC", "INCONCLUSIVE", "UNPROVEN", "VACUOUS", "SUPPORTED", "PROVED", "NOT RUN", ""];
  const fails = new Set(["DISPROVED", "REFUTED", "ERROR", "NUMERIC"]);
  const keyOf = (item, by) => {
    if (by[0] === "v" && /^\d+$/.test(by.slice(1))) return ranks.indexOf(item.verdicts[+by.slice(1)] || "");
    const raw = item.d[by];
    if (by === "title" || by === "change" || by === "breaks") return raw || "\uffff";
    return raw === "" || raw === undefined ? Infinity : +raw;
  };
  heads.forEach((head) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const by = head.dataset.sort;
      State.set("sort", State.get("sort") === by ? "-" + by : by === "rank" ? "" : by);
      apply();
    });
  });
  const apply = () => {
    const sort = State.get("sort");
    const down = sort.startsWith("-");
    const by = (down ? sort.slice(1) : sort) || "rank";
    heads.forEach((h) => {
      if (h.dataset.sort === by) h.setAttribute("aria-sort", down ? "descending" : "ascending");
      else h.removeAttribute("aria-sort");
    });
    const sorted = info.map((item) => [keyOf(item, by), item]).sort((a, b) => {
      const last = (x) => x === Infinity || x === "\uffff";
      if (last(a[0]) !== last(b[0])) return last(a[0]) ? 1 : -1; // empty cells last in both directions
      const c = a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0;
      return (down ? -c : c) || a[1].d.rank - b[1].d.rank;
    });
    const order = sorted.map((x) => x[1].row);
    if (order.some((row, k) => row !== body.rows[k])) body.append(...order);
    const q = State.get("q").toLowerCase().split(/\s+/).filter(Boolean);
    const cat = State.get("cat"), kind = State.get("kind"), where = names.indexOf(State.get("in"));
    let shown = 0;
    info.forEach((item) => {
      const keep = q.every((w) => item.text.includes(w)) && (!cat || item.d.cat === cat) && (!kind || item.d.kind === kind)
        && (where < 0 || fails.has(item.verdicts[where]));
      item.row.hidden = !keep;
      shown += keep;
    });
    document.getElementById("shown").textContent = shown === rows.length ? `${shown} claims` : `${shown} of ${rows.length} claims`;
  };
  form.hidden = false;
  form.addEventListener("submit", (e) => e.preventDefault());
  [...form.elements].filter((f) => f.name).forEach((field) => field.addEventListener("input", () => { State.set(field.name, field.value); apply(); }));
  State.listen(() => {
    [...form.elements].filter((f) => f.name).forEach((field) => { if (field.value !== State.get(field.name)) field.value = State.get(field.name); });
    apply();
  });
})();
