// Asks the agent whether there is a newer tick, and shows it. A page that is hidden or paused asks nothing.
(() => {
  const STALE_INTERVALS = 3;
  // In seconds, as all times here.
  const LEAST_STALE = 10;
  const LONGEST_WAIT = 60;
  const ANSWER_WITHIN = 10;
  const PAGE_WITHIN = 60;
  const NOTICE_WITHIN = 3;

  const bar = document.getElementById("live");
  const button = document.getElementById("pause");
  const age = document.getElementById("age");
  const words = document.getElementById("trouble");
  let tag = bar.dataset.tag;
  let trouble = words.textContent;
  let failures = 0;
  let interval = 0;
  let taken = null;
  let question = null;
  let paused = false;
  let timer = 0;

  class Trouble extends Error {}

  // XMLHttpRequest makes a document without scripts of an answer; nothing becomes markup on the way.
  function ask(method, path, within, headers = {}, type = "") {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open(method, path);
      request.timeout = 1000 * within;
      request.responseType = type;
      for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
      request.onload = () => resolve(request);
      request.onerror = () => reject(new Trouble("The agent cannot be reached."));
      request.ontimeout = () => reject(new Trouble(`The agent has not answered for ${within} s.`));
      request.send();
    });
  }

  function now() {
    return { steady: performance.now(), wall: Date.now() };
  }

  // The steady clock may stand still while the computer sleeps, the other may be set: figures are rather called too old.
  function since(time) {
    return Math.max(performance.now() - time.steady, Date.now() - time.wall) / 1000;
  }

  // How old a tick is only the agent knows: its clock may differ from ours, so ours counts from the question on.
  function note(answer, asked) {
    interval = Number(answer.getResponseHeader("Numaudit-Interval"));
    taken = { asked, age: Number(answer.getResponseHeader("Numaudit-Age")) };
  }

  async function refresh() {
    const asked = now();
    const answer = await ask("HEAD", "report.json", ANSWER_WITHIN, { "If-None-Match": tag });
    if (answer.status === 200) return showNewer();
    // A page that was stale when it came is that of the newest tick.
    if (answer.status === 304 || (taken === null && answer.getResponseHeader("Numaudit-Age"))) note(answer, asked);
    if (answer.status !== 304) throw new Trouble(await explain(answer));
  }

  async function showNewer() {
    const asked = now();
    const answer = await ask("GET", `./${about()}`, PAGE_WITHIN, {}, "document");
    const page = answer.responseXML;
    if (answer.status !== 200) throw new Trouble(await explain(answer));
    if (!page?.getElementById("live")) throw new Trouble("Something else answers in place of the agent.");
    if (paused) return;
    if (tag === "" || version(page) !== version(document)) {
      location.reload();
      return;
    }
    document.dispatchEvent(new CustomEvent("newer", { detail: page }));
    for (const part of ["header", "main"]) morph(document.querySelector(part), page.querySelector(part));
    document.dispatchEvent(new Event("shown"));
    tag = answer.getResponseHeader("ETag");
    note(answer, asked);
  }

  // The page of one container stays with it.
  function about() {
    const container = new URLSearchParams(location.search).get("container");
    return container === null ? "" : `?container=${encodeURIComponent(container)}`;
  }

  function version(page) {
    return page.querySelector("meta[name=generator]").content;
  }

  async function explain(answer) {
    const { status } = answer;
    if (status === 401) {
      setPaused(true);
      return "The agent asks for a user and a password: load the page again to sign in.";
    }
    if (status === 404) return "The newest tick does not have this container any more.";
    if (status !== 503) return `The agent answers with status ${status}.`;
    if (answer.getResponseHeader("Retry-After") !== null) return "The agent has too many requests to answer.";
    const health = await ask("GET", "-/healthy", ANSWER_WITHIN);
    if (health.status !== 200) return `The agent has no current report: ${health.responseText.trim()}.`;
    return tag === "" ? "There is no report yet." : "The agent had no current report a moment ago.";
  }

  async function poll() {
    clearTimeout(timer);
    if (paused || document.hidden || question !== null) return;
    question = now();
    try {
      await refresh();
      failures = 0;
      trouble = "";
    } catch (error) {
      if (!(error instanceof Trouble)) throw error;
      failures += 1;
      trouble = error.message;
    } finally {
      question = null;
      timer = setTimeout(poll, 1000 * wait());
      show();
    }
  }

  // Seconds: until a little after the next tick, which takes a moment to be published. Not all pages ask at once.
  function wait() {
    const due = interval * (1.05 + Math.random() / 10) - seconds();
    const next = failures === 0 ? Math.max(due, interval / 4, 1) : 2 ** (failures - 1) * (1 + Math.random() / 10);
    return Math.min(next, LONGEST_WAIT);
  }

  function seconds() {
    return taken === null ? null : taken.age + since(taken.asked);
  }

  function isOld() {
    const mayChange = question !== null && since(question) < NOTICE_WITHIN;
    return taken !== null && !mayChange && seconds() > Math.max(LEAST_STALE, STALE_INTERVALS * interval);
  }

  function show() {
    const said = trouble === "" && isOld() ? "No newer tick has come." : trouble;
    const states = [paused ? "paused" : "", said === "" || tag === "" ? "" : "stale"].filter(Boolean);
    const figures = tag === "" ? "no figures yet" : `figures of ${duration(seconds())} ago`;
    const text = [states.join(" and "), figures].filter(Boolean).join(": ");
    setText(age, text[0].toUpperCase() + text.slice(1));
    setText(words, said);
    bar.classList.toggle("stale", said !== "");
  }

  function duration(time) {
    if (time === null) return "some time";
    if (time < 120) return `${Math.round(time)} s`;
    return time < 7200 ? `${Math.round(time / 60)} min` : `${Math.round(time / 3600)} h`;
  }

  function setText(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  function setPaused(whether) {
    paused = whether;
    button.setAttribute("aria-pressed", String(whether));
  }

  button.addEventListener("click", () => {
    setPaused(!paused);
    failures = 0;
    poll();
    show();
  });
  document.addEventListener("visibilitychange", poll);
  setInterval(show, 1000);
  button.hidden = false;
  poll();
})();
