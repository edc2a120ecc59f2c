"use strict";
// Shows what is opened; everything that comes from a run is set as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const STEP = 50;
  const word = (number) => data.strings[number];
  const make = (tag, text, className) => {
    const made = document.createElement(tag);
    if (text !== undefined && text !== null) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const count = (value) => value.toLocaleString("en");

  // A mark of a picture says what it is, to the mouse, the finger and whoever hovers.
  for (const figure of document.querySelectorAll("figure")) {
    const told = figure.querySelector(".told");
    if (!told) continue;
    let on = null;
    for (const mark of figure.querySelectorAll(".mark-symbol [aria-label]")) {
      if (mark.closest(".role-legend")) continue;
      const label = mark.getAttribute("aria-label");
      const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
      title.textContent = label;
      mark.append(title);
      const tell = () => {
        if (on) on.classList.remove("on");
        on = mark;
        mark.classList.add("on");
        told.textContent = label;
      };
      mark.addEventListener("pointerenter", tell);
      mark.addEventListener("click", tell);
    }
  }

  // Columns are put in order by buttons in their heads.
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = make("button", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") !== "descending" && column > 0;
        const up = column === 0 && head.getAttribute("aria-sort") === "ascending";
        const sign = down || up ? -1 : 1;
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
        const value = (row) => {
          const cell = row.cells[column];
          return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
        };
        const compared = (a, b) => (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
        const rows = [...table.tBodies[0].rows].sort((a, b) => sign * compared(value(a), value(b)));
        table.tBodies[0].append(...rows);
      });
    });
  }

  // A result: verdict (0 wrong, 1 right, 2 open), outcome, answer, decoded, serial, seconds, why it stopped,
  // [how, [answer, weight, ...], other answers, score, tied], text
  const VERDICTS = ["wrong", "right", "open"];
  const SIGNS = ["\u2717", "\u2713", "?"];
  const result = (name, cell) => {
    const place = make("div", null, "result");
    const [verdict, outcome, answer, decoded, serial, seconds, why, vote, text] = cell;
    const head = make("p");
    head.append(make("b", name), " ");
    head.append(make("span", `${SIGNS[verdict]} ${VERDICTS[verdict]}`, VERDICTS[verdict]));
    head.append(answer ? ` answer ${word(answer)}` : ` ${word(outcome)}, no answer`);
    place.append(head);
    place.append(make("p", `${count(decoded)} decoded, ${count(serial)} serial tokens, ${seconds} s`, "soft small"));
    if (vote) {
      const [how, weights, others, score, tied] = vote;
      const parts = [];
      for (let at = 0; at < weights.length; at += 2) parts.push(`${word(weights[at])}: ${weights[at + 1]}`);
      if (others) parts.push(`${others} other answers`);
      if (score !== null) parts.push(`score of the chosen one ${score}`);
      if (tied) parts.push("a tie");
      place.append(make("p", `${word(how)}: ${parts.join(", ") || "nobody had a vote"}`, "small"));
    }
    if (why) place.append(make("p", `stopped: ${word(why)}`, "small"));
    if (text) place.append(make("p", word(text), "text"));
    return place;
  };
  const verdicts = (problem) => problem[2].filter(Boolean).map((cell) => cell[0]);
  const FILTERS = {
    all: ["all", () => true],
    differ: ["runs disagree", (p) => new Set(verdicts(p)).size > 1],
    wrong: ["none is right", (p) => !verdicts(p).includes(1)],
    right: ["all are right", (p) => verdicts(p).every((one) => one === 1)],
    open: ["someone has no answer", (p) => p[2].some((cell) => cell && !cell[2])],
  };

  for (const place of document.querySelectorAll(".problems")) {
    const { runs, problems } = data.panels[Number(place.dataset.panel)];
    const controls = make("div", null, "controls");
    const select = make("select");
    for (const [key, [name, holds]] of Object.entries(FILTERS)) {
      const option = make("option", `${name} (${problems.filter(holds).length})`);
      option.value = key;
      select.append(option);
    }
    const search = make("input");
    search.type = "search";
    const asked = (text, control) => {
      const label = make("label", `${text} `);
      label.append(control);
      controls.append(label);
    };
    asked("show", select);
    asked("id or answer contains", search);
    const list = make("div");
    const status = make("p", null, "soft small");
    status.setAttribute("role", "status");
    const more = make("button", "show more");
    more.type = "button";
    place.append(controls, status, list, more);
    let shown = [];
    let drawn = 0;
    const grow = () => {
      for (const problem of shown.slice(drawn, drawn + STEP)) {
        const [id, gold, cells] = problem;
        const all = verdicts(problem);
        const details = make("details");
        const summary = make("summary", word(id));
        const right = all.filter((one) => one === 1).length;
        summary.append(" ", make("span", `gold ${gold ? word(gold) : "unknown"}, right in ${right} of ${all.length}`, "soft"));
        details.append(summary);
        details.addEventListener("toggle", () => {
          if (!details.open || details.children.length > 1) return;
          cells.forEach((cell, at) => cell && details.append(result(word(runs[at]), cell)));
        });
        list.append(details);
      }
      drawn = Math.min(drawn + STEP, shown.length);
      status.textContent = `${drawn} of ${shown.length} problems`;
      more.hidden = drawn >= shown.length;
    };
    const begin = () => {
      const holds = FILTERS[select.value][1];
      const text = search.value.toLowerCase();
      const fits = (problem) => [problem[0], problem[1]].some((at) => (word(at) || "").toLowerCase().includes(text));
      shown = problems.filter((problem) => holds(problem) && (!text || fits(problem)));
      drawn = 0;
      list.replaceChildren();
      grow();
    };
    select.addEventListener("change", begin);
    search.addEventListener("input", begin);
    more.addEventListener("click", grow);
    begin();
  }
})();
