"use strict";
// Sorts and filters the table of containers, and draws its rows when they come into view. What it does to a page it can
// do to a newer one before that is shown.
(() => {
  const { title } = document;
  const alphabet = new Intl.Collator("en", { numeric: true });
  const lanes = new IntersectionObserver(
    (cells) => cells.filter((one) => one.isIntersecting).forEach((one) => draw(one.target)),
    { rootMargin: "50%", scrollMargin: "50%" },
  );
  // Milliseconds after the last letter.
  const PAUSE = 300;
  const MINUTE = 60_000;
  let order = null;
  let typing = 0;

  function present(page) {
    const table = page.getElementById("rows");
    if (table === null) return;
    if (page !== document) table.querySelectorAll("noscript").forEach(likeHere);
    dressHeads(page, table.tHead.rows[0].cells);
    sort(table.tBodies[0]);
    keepChoice(page);
    page.getElementById("controls").hidden = false;
    filter(page);
  }

  function watch() {
    for (const waiting of document.querySelectorAll("#rows noscript")) lanes.observe(waiting.parentNode);
  }

  // To a browser that runs scripts it is text; a page made markup of it would have no right to be shown.
  function draw(cell) {
    lanes.unobserve(cell);
    const waiting = cell.querySelector("noscript");
    if (waiting === null) return;
    const { namespaceURI } = document.querySelector("svg");
    const parts = Array.from(waiting.textContent.matchAll(/<(svg|path)([^>]*)>/g), ([, name, attributes]) => {
      const part = document.createElementNS(namespaceURI, name);
      for (const [, key, value] of attributes.matchAll(/([\w-]+)="([^"]*)"/g)) part.setAttribute(key, value);
      return part;
    });
    parts[0].append(...parts.slice(1));
    waiting.replaceWith(parts[0]);
  }

  // A newer page runs no scripts, so its drawings are elements: they stay such where the page on the screen has them.
  function likeHere(waiting) {
    const row = document.getElementById(waiting.closest("tr").id);
    if (row?.querySelector(".nodes svg")) waiting.replaceWith(...waiting.childNodes);
    else waiting.textContent = waiting.innerHTML.replaceAll("></path>", "/>");
  }

  // A verdict that no container has any more stays chosen: nothing else would be filtered for instead.
  function keepChoice(page) {
    addChoice(page, page.getElementById("verdict"), wanted("verdict"));
  }

  function addChoice(page, choices, chosen) {
    if (Array.from(choices.options).some((option) => option.value === chosen)) return;
    const option = page.createElement("option");
    option.textContent = chosen;
    choices.append(option);
  }

  function dressHeads(page, heads) {
    for (const head of heads) {
      if (head.querySelector("button") === null) {
        const button = page.createElement("button");
        button.type = "button";
        button.append(...head.childNodes);
        head.append(button);
      }
      if (order !== null && order.column === head.cellIndex) {
        head.setAttribute("aria-sort", order.descends ? "descending" : "ascending");
      } else {
        head.removeAttribute("aria-sort");
      }
    }
  }

  function sort(body) {
    if (order === null) return;
    const { column, descends } = order;
    const rows = Array.from(body.rows);
    rows.sort((a, b) => compare(key(a.cells[column]), key(b.cells[column]), descends));
    body.append(...rows);
  }

  function key(cell) {
    const number = cell.dataset.v;
    const text = number === undefined ? cell.textContent : number;
    return ["", "-", "?"].includes(text) ? null : number === undefined ? text : Number(number);
  }

  // What is not known comes last, whichever way the rows are sorted.
  function compare(a, b, descends) {
    if (a === null || b === null) return (a === null) - (b === null);
    const difference = typeof a === "number" ? a - b : alphabet.compare(a, b);
    return descends ? -difference : difference;
  }

  // What the reader has entered: it is in the page on the screen alone.
  function wanted(id) {
    return document.getElementById(id)?.value ?? "";
  }

  function filter(page) {
    const name = wanted("name").trim().toLowerCase();
    const verdict = wanted("verdict");
    const { rows } = page.getElementById("rows").tBodies[0];
    let count = 0;
    for (const row of rows) {
      const fits = row.cells[0].textContent.toLowerCase().includes(name);
      row.hidden = !fits || (verdict !== "" && row.dataset.verdict !== verdict);
      count += row.hidden ? 0 : 1;
    }
    const by = [name && `name with "${name}"`, verdict && `verdict ${verdict}`].filter(Boolean);
    const whole = `${count} of ${rows.length} rows shown`;
    page.getElementById("shown").textContent = [whole, by.join(", ")].filter(Boolean).join(": ");
  }

  // Of amounts the largest first; a second click turns the order round.
  function click(event) {
    const head = event.target.closest("#rows thead th");
    if (head === null || event.target.closest("button") === null) return;
    const column = head.cellIndex;
    const again = order !== null && order.column === column;
    order = { column, descends: again ? !order.descends : head.dataset.first === "descending" };
    present(document);
    remember();
  }

  // The choice is in the address, so that a link shows what its sender saw.
  function remember() {
    const address = new URL(location.href);
    const title = order === null ? "" : document.querySelectorAll("#rows thead th")[order.column].textContent;
    const sort = order === null ? "" : `${order.descends ? "-" : ""}${title}`;
    const chosen = { name: wanted("name").trim(), verdict: wanted("verdict"), sort };
    for (const [key, value] of Object.entries(chosen)) {
      if (value === "") address.searchParams.delete(key);
      else address.searchParams.set(key, value);
    }
    if (address.href !== location.href) history.replaceState(history.state, "", address);
  }

  function recall() {
    const chosen = new URLSearchParams(location.search);
    const table = document.getElementById("rows");
    if (table === null) return;
    document.getElementById("name").value = chosen.get("name") ?? "";
    const choices = document.getElementById("verdict");
    addChoice(document, choices, chosen.get("verdict") ?? "");
    choices.value = chosen.get("verdict") ?? "";
    const sort = chosen.get("sort") ?? "";
    const title = sort.replace(/^-/, "");
    const column = Array.from(table.tHead.rows[0].cells).findIndex((head) => head.textContent === title);
    if (column >= 0) order = { column, descends: sort.startsWith("-") };
  }

  // How long ago a file's report was taken; an agent's page has a bar that says so.
  function ago() {
    const place = document.getElementById("ago");
    if (place === null || document.getElementById("live") !== null) return;
    const minutes = Math.floor((Date.now() - Date.parse(place.previousElementSibling.dateTime)) / MINUTE);
    const steps = [[1440, "day"], [60, "hour"], [1, "minute"]];
    const [size, name] = steps.find(([size]) => minutes >= size) ?? [1, ""];
    const count = Math.floor(minutes / size);
    place.textContent = minutes < 1 ? "" : `, ${count} ${name}${count === 1 ? "" : "s"} ago`;
  }

  // The page of one container in a file is a part of it, which is text until it is opened, and has a title of its own.
  // An agent's page has none, and no right to make markup of text.
  function entitle() {
    const waiting = document.querySelector(".own:target > noscript");
    if (waiting !== null) {
      const parsed = new DOMParser().parseFromString(waiting.textContent, "text/html");
      waiting.replaceWith(...parsed.body.childNodes);
    }
    const own = document.querySelector(".own:target h2");
    document.title = own === null ? title : `${own.textContent} - ${title}`;
  }

  recall();
  present(document);
  watch();
  ago();
  entitle();
  setInterval(ago, MINUTE);
  window.addEventListener("hashchange", entitle);
  document.addEventListener("click", click);
  document.addEventListener("input", (event) => {
    if (event.target.closest("#controls") === null) return;
    filter(document);
    clearTimeout(typing);
    typing = setTimeout(remember, PAUSE);
  });
  document.addEventListener("change", (event) => {
    if (event.target.closest("#controls") !== null) remember();
  });
  document.addEventListener("newer", (event) => present(event.detail));
  document.addEventListener("shown", watch);
  window.addEventListener("beforeprint", () => {
    for (const waiting of document.querySelectorAll("#rows noscript")) draw(waiting.parentNode);
  });
})();
