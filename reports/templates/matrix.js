// The necessity matrix: a cell opens its points under its row, the rows can be filtered by result, commands can be copied.
(() => {
  const line = (button, text) => { button.textContent = text; setTimeout(() => { button.textContent = "Copy"; }, 1500); };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    const code = button.parentElement.querySelector("code");
    getSelection().selectAllChildren(code);
    if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(() => line(button, "Copied"), () => line(button, "Press Ctrl+C"));
    else line(button, "Press Ctrl+C");
  });
  document.querySelectorAll(".findings .copyline").forEach((p) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    p.append(button);
  });
  const table = document.getElementById("matrix");
  if (!table) return;
  const rows = [...table.tBodies[0].rows];
  const cells = [...table.querySelectorAll("a.m")];
  cells.forEach((cell) => cell.setAttribute("aria-expanded", "false"));
  const close = () => {
    table.querySelectorAll("tr.opened").forEach((row) => row.remove());
    cells.forEach((cell) => { if (cell.ariaExpanded === "true") cell.setAttribute("aria-expanded", "false"); });
  };
  table.addEventListener("click", (event) => {
    const cell = event.target.closest("a.m");
    if (!cell || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation();
    const was = cell.getAttribute("aria-expanded") === "true";
    close();
    if (was) return;
    const source = State.find(cell.getAttribute("href").slice(1));
    const row = table.insertRow(cell.closest("tr").rowIndex + 1);
    row.className = "opened";
    const place = row.insertCell();
    place.colSpan = table.tHead.rows[0].cells.length;
    const copy = source.cloneNode(true);
    copy.removeAttribute("id");
    place.append(copy);
    cell.setAttribute("aria-expanded", "true");
  });
  const form = document.getElementById("matrix-filter");
  const matches = { "needed-undeclared": ".m-needed:not(.declared)", "not-needed-declared": ".m-not-needed.declared" };
  const apply = () => {
    const wanted = State.get("m");
    const selector = matches[wanted] || (wanted ? `.m-${CSS.escape(wanted)}` : "a.m");
    close();
    let shown = 0, found = 0;
    rows.forEach((row) => {
      const own = [...row.querySelectorAll("a.m")];
      const hits = own.filter((cell) => cell.matches(selector));
      own.forEach((cell) => cell.classList.toggle("faded", !cell.matches(selector)));
      row.hidden = wanted !== "" && !hits.length;
      shown += !row.hidden;
      found += hits.length;
    });
    document.getElementById("matrix-shown").textContent = wanted ? `${found} cells in ${shown} of ${rows.length} claims` : `${found} cells, ${rows.length} claims`;
  };
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.elements.m.addEventListener("input", () => { State.set("m", form.elements.m.value); apply(); });
  State.listen(() => { form.elements.m.value = State.get("m"); apply(); });
})();
