"use strict";
(() => {
  const table = document.getElementById("rows");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const name = document.getElementById("name");
  const verdict = document.getElementById("verdict");
  const shown = document.getElementById("shown");

  function filter() {
    const wanted = name.value.trim().toLowerCase();
    let count = 0;
    for (const row of rows) {
      const words = row.cells[2].lastChild ? row.cells[2].lastChild.textContent : "";
      const fits = row.cells[0].textContent.toLowerCase().includes(wanted);
      row.hidden = !fits || (verdict.value !== "" && words !== verdict.value);
      count += row.hidden ? 0 : 1;
    }
    shown.textContent = `${count} of ${rows.length} containers shown`;
  }

  function key(cell) {
    const number = cell.dataset.v;
    return number === undefined ? cell.textContent : Number(number);
  }

  function compare(a, b) {
    if (typeof a === typeof b) {
      return typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true });
    }
    return typeof a === "number" ? 1 : -1;
  }

  function sort(head) {
    const descends = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descends ? "descending" : "ascending");
    const column = head.cellIndex;
    rows.sort((a, b) => (descends ? -1 : 1) * compare(key(a.cells[column]), key(b.cells[column])));
    body.append(...rows);
  }

  for (const head of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(head));
  }
  name.addEventListener("input", filter);
  verdict.addEventListener("change", filter);
  document.getElementById("controls").hidden = false;
  filter();
})();
